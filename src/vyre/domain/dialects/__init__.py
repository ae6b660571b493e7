"""Operations as data: what they mean, which laws hold for them, and in which versions."""
