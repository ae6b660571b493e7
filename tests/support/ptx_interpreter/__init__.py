"""A second engine for PTX, written from NVIDIA's manual alone, to check the emulated device and the emitter.

``syntax`` reads a module, ``arithmetic`` holds one function for each instruction that computes, ``memory`` holds the
state spaces, ``program`` makes code of an entry, ``engine`` runs a grid of it in some schedule, ``backend`` binds
programs of vyre to it, ``by_hand`` runs hand-written instructions, and ``campaign`` compares it with other engines.

It shares no code with ``vyre.adapters.cuda.machine``, and whoever changes it reads the manual, not that machine: two
readings of one text check each other only as long as they stay apart.
"""
