"""What each PTX instruction does to lanes: tables from full opcodes to rules, and builders for the others."""
