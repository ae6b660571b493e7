"""Nothing at run time: type checkers read ``typed_functions.pyi`` beside this file."""
