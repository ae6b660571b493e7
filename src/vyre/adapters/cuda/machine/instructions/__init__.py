"""The effect of each PTX instruction on lanes: tables from full opcodes to rules, and builders for the others."""
