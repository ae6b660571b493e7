"""Nothing at run time: type checkers read ``typed_values.pyi`` beside this file."""
