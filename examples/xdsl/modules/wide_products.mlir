"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi32>, %arg1: memref<16xi32>, %arg2: memref<5x16xi32>, %arg3: memref<16xi1>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "memref.load"(%arg0, %4) : (memref<16xi32>, index) -> i32
      %6 = "memref.load"(%arg1, %4) : (memref<16xi32>, index) -> i32
      %7:2 = "arith.mulsi_extended"(%5, %6) : (i32, i32) -> (i32, i32)
      %8:2 = "arith.mului_extended"(%5, %6) : (i32, i32) -> (i32, i32)
      %9:2 = "arith.addui_extended"(%5, %6) : (i32, i32) -> (i32, i1)
      "memref.store"(%9#1, %arg3, %4) : (i1, memref<16xi1>, index) -> ()
      %10 = "arith.constant"() {value = 0 : index} : () -> index
      "memref.store"(%7#0, %arg2, %10, %4) : (i32, memref<5x16xi32>, index, index) -> ()
      %11 = "arith.constant"() {value = 1 : index} : () -> index
      "memref.store"(%7#1, %arg2, %11, %4) : (i32, memref<5x16xi32>, index, index) -> ()
      %12 = "arith.constant"() {value = 2 : index} : () -> index
      "memref.store"(%8#0, %arg2, %12, %4) : (i32, memref<5x16xi32>, index, index) -> ()
      %13 = "arith.constant"() {value = 3 : index} : () -> index
      "memref.store"(%8#1, %arg2, %13, %4) : (i32, memref<5x16xi32>, index, index) -> ()
      %14 = "arith.constant"() {value = 4 : index} : () -> index
      "memref.store"(%9#0, %arg2, %14, %4) : (i32, memref<5x16xi32>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi32>, memref<16xi32>, memref<5x16xi32>, memref<16xi1>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "wide_products", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
