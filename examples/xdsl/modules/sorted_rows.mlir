"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16x8xi32>, %arg1: memref<8xi32, 5>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 0 : index} : () -> index
      %6 = "arith.constant"() {value = 1 : index} : () -> index
      %7 = "arith.constant"() {value = 7 : index} : () -> index
      %8 = "arith.constant"() {value = 8 : index} : () -> index
      %9 = "memref.subview"(%arg0, %4) {operand_segment_sizes = array<i32: 1, 1, 0, 0>, static_offsets = array<i64: -9223372036854775808, 0>, static_sizes = array<i64: 1, 8>, static_strides = array<i64: 1, 1>} : (memref<16x8xi32>, index) -> memref<8xi32, strided<[1], offset: ?>>
      "memref.copy"(%9, %arg1) : (memref<8xi32, strided<[1], offset: ?>>, memref<8xi32, 5>) -> ()
      "scf.for"(%5, %7, %6) ({
      ^bb0(%arg2: index):
        %10 = "arith.subi"(%7, %arg2) : (index, index) -> index
        "scf.for"(%5, %10, %6) ({
        ^bb0(%arg3: index):
          %11 = "arith.addi"(%arg3, %6) : (index, index) -> index
          %12 = "memref.load"(%arg1, %arg3) : (memref<8xi32, 5>, index) -> i32
          %13 = "memref.load"(%arg1, %11) : (memref<8xi32, 5>, index) -> i32
          %14 = "arith.minsi"(%12, %13) : (i32, i32) -> i32
          %15 = "arith.maxsi"(%12, %13) : (i32, i32) -> i32
          "memref.store"(%14, %arg1, %arg3) : (i32, memref<8xi32, 5>, index) -> ()
          "memref.store"(%15, %arg1, %11) : (i32, memref<8xi32, 5>, index) -> ()
          "scf.yield"() : () -> ()
        }) : (index, index, index) -> ()
        "scf.yield"() : () -> ()
      }) : (index, index, index) -> ()
      "memref.copy"(%arg1, %9) : (memref<8xi32, 5>, memref<8xi32, strided<[1], offset: ?>>) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16x8xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "sorted_rows", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
