"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi32>, %arg1: memref<2xi32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "memref.load"(%arg0, %4) : (memref<16xi32>, index) -> i32
      %6 = "gpu.all_reduce"(%5) ({
      ^bb0(%arg2: i32, %arg3: i32):
        %7 = "arith.muli"(%arg2, %arg3) : (i32, i32) -> i32
        %8 = "arith.addi"(%7, %arg3) : (i32, i32) -> i32
        "gpu.yield"(%8) : (i32) -> ()
      }) {uniform} : (i32) -> i32
      "memref.store"(%6, %arg1, %0) : (i32, memref<2xi32>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi32>, memref<2xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "largest_product", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
