"""The PTX emitter: it translates programs to PTX text deterministically, and needs neither a driver nor a CUDA
package.
"""
