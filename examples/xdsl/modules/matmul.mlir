"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16x12xf32>, %arg1: memref<12x8xf32>, %arg2: memref<16x8xf32>):
      %0 = "arith.constant"() {value = 0 : index} : () -> index
      %1 = "arith.constant"() {value = 1 : index} : () -> index
      %2 = "arith.constant"() {value = 12 : index} : () -> index
      %3 = "arith.constant"() {value = 0.000000e+00 : f32} : () -> f32
      %4 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %5 = "gpu.thread_id"() {dimension = #gpu<dim y>} : () -> index
      %6 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %7 = "gpu.block_dim"() {dimension = #gpu<dim y>} : () -> index
      %8 = "arith.muli"(%4, %7) : (index, index) -> index
      %9 = "arith.addi"(%8, %5) : (index, index) -> index
      %10 = "scf.for"(%0, %2, %1, %3) ({
      ^bb0(%arg3: index, %arg4: f32):
        %11 = "memref.load"(%arg0, %9, %arg3) : (memref<16x12xf32>, index, index) -> f32
        %12 = "memref.load"(%arg1, %arg3, %6) : (memref<12x8xf32>, index, index) -> f32
        %13 = "arith.mulf"(%11, %12) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
        %14 = "arith.addf"(%arg4, %13) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
        "scf.yield"(%14) : (f32) -> ()
      }) : (index, index, index, f32) -> f32
      "memref.store"(%10, %arg2, %9, %6) : (f32, memref<16x8xf32>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16x12xf32>, memref<12x8xf32>, memref<16x8xf32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 8, 1>, sym_name = "matmul", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
