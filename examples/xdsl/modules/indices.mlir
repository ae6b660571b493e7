"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi64>, %arg1: memref<16xi64>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "memref.load"(%arg0, %4) : (memref<16xi64>, index) -> i64
      %6 = "arith.index_cast"(%5) : (i64) -> index
      %7 = "index.constant"() {value = 3 : index} : () -> index
      %8 = "index.floordivs"(%6, %7) : (index, index) -> index
      %9 = "index.ceildivs"(%6, %7) : (index, index) -> index
      %10 = "index.maxs"(%8, %9) : (index, index) -> index
      %11 = "index.shru"(%10, %7) : (index, index) -> index
      %12 = "index.cmp"(%8, %9) {pred = #index<cmp_predicate slt>} : (index, index) -> i1
      %13 = "index.constant"() {value = 1 : index} : () -> index
      %14 = "index.sub"(%11, %13) : (index, index) -> index
      %15 = "arith.select"(%12, %14, %11) : (i1, index, index) -> index
      %16 = "arith.index_cast"(%15) : (index) -> i64
      "memref.store"(%16, %arg1, %4) : (i64, memref<16xi64>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi64>, memref<16xi64>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "indices", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
