"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi32>, %arg1: memref<8xi32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 1 : i32} : () -> i32
      %6 = "arith.constant"() {value = 7 : i32} : () -> i32
      %7 = "memref.load"(%arg0, %4) : (memref<16xi32>, index) -> i32
      %8 = "arith.andi"(%7, %6) : (i32, i32) -> i32
      %9 = "arith.index_cast"(%8) : (i32) -> index
      %10 = "memref.atomic_rmw"(%5, %arg1, %9) {kind = 1 : i64} : (i32, memref<8xi32>, index) -> i32
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi32>, memref<8xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "histogram", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
