"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<?x?xf32, strided<[?, ?], offset: ?>>, %arg1: memref<?x?xf32>):
      %0 = "arith.constant"() {value = 0 : index} : () -> index
      %1 = "arith.constant"() {value = 1 : index} : () -> index
      %2 = "memref.dim"(%arg0, %0) : (memref<?x?xf32, strided<[?, ?], offset: ?>>, index) -> index
      %3 = "memref.dim"(%arg0, %1) : (memref<?x?xf32, strided<[?, ?], offset: ?>>, index) -> index
      %4 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %5 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %6 = "arith.muli"(%5, %3) : (index, index) -> index
      %7 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      "scf.parallel"(%4, %3, %7) ({
      ^bb0(%arg2: index):
        %8 = "memref.load"(%arg0, %5, %arg2) : (memref<?x?xf32, strided<[?, ?], offset: ?>>, index, index) -> f32
        %9 = "arith.addf"(%8, %8) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
        "memref.store"(%9, %arg1, %5, %arg2) : (f32, memref<?x?xf32>, index, index) -> ()
        "scf.yield"() : () -> ()
      }) {operand_segment_sizes = array<i32: 1, 1, 1, 0>} : (index, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<?x?xf32, strided<[?, ?], offset: ?>>, memref<?x?xf32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 4, 1, 1>, sym_name = "strided_rows", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
