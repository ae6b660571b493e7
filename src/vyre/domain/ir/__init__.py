"""The intermediate representation: types, operators, expressions, statements, programs, written forms."""
