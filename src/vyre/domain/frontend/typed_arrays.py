"""Nothing at run time: type checkers read ``typed_arrays.pyi`` beside this file."""
