"""Machine code for the processor of this machine: its features, the compiler, and loaders of compiled objects.

``features.host()`` says what the processor and the operating system support.
``compilation.compile_object(text, features, effort)`` turns LLVM IR into a relocatable ELF object, and
``compilation.assembly`` into assembly text; both import llvmlite when they are first called.
``compilation.llvm_version()`` names the installed LLVM without importing it.
``loading.load(data)`` returns ``LoadedCode`` with the addresses of an object's functions; on Linux without llvmlite.

What a store keeps of a kernel is the object itself: it is complete, may lie at any address, and holds no address of the
process that compiled it.  Its key needs ``CpuFeatures.text``, ``Effort.value`` and ``llvm_version()``, since all
three change the code.
"""
