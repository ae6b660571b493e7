"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<20x20xf32>, %arg1: memref<16xf32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 2 : index} : () -> index
      %6 = "arith.constant"() {value = 0 : index} : () -> index
      %7 = "memref.subview"(%arg0, %4) {operand_segment_sizes = array<i32: 1, 1, 0, 0>, static_offsets = array<i64: -9223372036854775808, 1>, static_sizes = array<i64: 1, 6>, static_strides = array<i64: 1, 3>} : (memref<20x20xf32>, index) -> memref<6xf32, strided<[3], offset: ?>>
      %8 = "memref.subview"(%7, %5) {operand_segment_sizes = array<i32: 1, 1, 0, 0>, static_offsets = array<i64: -9223372036854775808>, static_sizes = array<i64: 3>, static_strides = array<i64: 1>} : (memref<6xf32, strided<[3], offset: ?>>, index) -> memref<3xf32, strided<[3], offset: ?>>
      %9 = "memref.load"(%8, %6) : (memref<3xf32, strided<[3], offset: ?>>, index) -> f32
      %10 = "memref.load"(%8, %5) : (memref<3xf32, strided<[3], offset: ?>>, index) -> f32
      %11 = "arith.addf"(%9, %10) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      "memref.store"(%11, %arg1, %4) : (f32, memref<16xf32>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<20x20xf32>, memref<16xf32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "every_third", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
