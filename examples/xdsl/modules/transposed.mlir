"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<2x4x8xi32>, %arg1: memref<2x8x4xi32>, %arg2: memref<4x8xi32, 3>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim y>} : () -> index
      %3 = "memref.load"(%arg0, %0, %2, %1) : (memref<2x4x8xi32>, index, index, index) -> i32
      "memref.store"(%3, %arg2, %2, %1) : (i32, memref<4x8xi32, 3>, index, index) -> ()
      "gpu.barrier"() : () -> ()
      %4 = "arith.constant"() {value = 4 : index} : () -> index
      %5 = "arith.constant"() {value = 8 : index} : () -> index
      %6 = "arith.muli"(%2, %5) : (index, index) -> index
      %7 = "arith.addi"(%6, %1) : (index, index) -> index
      %8 = "arith.divui"(%7, %4) : (index, index) -> index
      %9 = "arith.remui"(%7, %4) : (index, index) -> index
      %10 = "memref.load"(%arg2, %9, %8) : (memref<4x8xi32, 3>, index, index) -> i32
      "memref.store"(%10, %arg1, %0, %8, %9) : (i32, memref<2x8x4xi32>, index, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<2x4x8xi32>, memref<2x8x4xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 4, 1>, sym_name = "transposed", workgroup_attributions = 1 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
