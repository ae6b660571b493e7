"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<80xi32>, %arg1: memref<80xi32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "memref.load"(%arg0, %4) : (memref<80xi32>, index) -> i32
      %6 = "gpu.subgroup_reduce"(%5) {op = #gpu<all_reduce_op add>} : (i32) -> i32
      %7 = "gpu.subgroup_id"() : () -> index
      %8 = "arith.index_cast"(%7) : (index) -> i32
      %9 = "arith.addi"(%6, %8) : (i32, i32) -> i32
      "memref.store"(%9, %arg1, %4) : (i32, memref<80xi32>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<80xi32>, memref<80xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 40, 1, 1>, sym_name = "subgroup_sums", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
