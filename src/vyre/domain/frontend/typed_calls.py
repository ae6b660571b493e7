"""Nothing at run time: type checkers read ``typed_calls.pyi`` beside this file."""
