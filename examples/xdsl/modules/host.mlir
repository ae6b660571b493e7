"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<?xf32>, %arg1: f32):
      %0 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "memref.load"(%arg0, %0) : (memref<?xf32>, index) -> f32
      %2 = "arith.mulf"(%1, %1) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      %3 = "arith.mulf"(%2, %arg1) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      "memref.store"(%3, %arg0, %0) : (f32, memref<?xf32>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<?xf32>, f32) -> (), gpu.kernel, sym_name = "squares", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
  "func.func"() ({
    %0 = "arith.constant"() {value = 0 : index} : () -> index
    %1 = "arith.constant"() {value = 1 : index} : () -> index
    %2 = "arith.constant"() {value = 6 : index} : () -> index
    %3 = "arith.constant"() {value = 5.000000e-01 : f32} : () -> f32
    %4 = "memref.alloc"(%2) {operand_segment_sizes = array<i32: 1, 0>} : (index) -> memref<?xf32>
    "scf.for"(%0, %2, %1) ({
    ^bb0(%arg0: index):
      %12 = "arith.index_cast"(%arg0) : (index) -> i32
      %13 = "arith.sitofp"(%12) : (i32) -> f32
      "memref.store"(%13, %4, %arg0) : (f32, memref<?xf32>, index) -> ()
      "scf.yield"() : () -> ()
    }) : (index, index, index) -> ()
    %5 = "gpu.wait"() : () -> !gpu.async.token
    %6:2 = "gpu.alloc"(%5, %2) {operand_segment_sizes = array<i32: 1, 1, 0>} : (!gpu.async.token, index) -> (memref<?xf32>, !gpu.async.token)
    %7 = "gpu.memcpy"(%6#1, %6#0, %4) : (!gpu.async.token, memref<?xf32>, memref<?xf32>) -> !gpu.async.token
    %8 = "gpu.launch_func"(%7, %1, %1, %1, %2, %1, %1, %6#0, %3) {kernel = @kernels::@squares, operand_segment_sizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 2>} : (!gpu.async.token, index, index, index, index, index, index, memref<?xf32>, f32) -> !gpu.async.token
    %9 = "gpu.launch_func"(%8, %1, %1, %1, %2, %1, %1, %6#0, %3) {kernel = @kernels::@squares, operand_segment_sizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 2>} : (!gpu.async.token, index, index, index, index, index, index, memref<?xf32>, f32) -> !gpu.async.token
    %10 = "gpu.memcpy"(%9, %4, %6#0) : (!gpu.async.token, memref<?xf32>, memref<?xf32>) -> !gpu.async.token
    "gpu.wait"(%10) : (!gpu.async.token) -> ()
    %11 = "memref.cast"(%4) : (memref<?xf32>) -> memref<*xf32>
    "func.call"(%11) {callee = @printMemrefF32} : (memref<*xf32>) -> ()
    "func.return"() : () -> ()
  }) {function_type = () -> (), sym_name = "main"} : () -> ()
  "func.func"() ({
  }) {function_type = (memref<*xf32>) -> (), sym_name = "printMemrefF32", sym_visibility = "private"} : () -> ()
}) {gpu.container_module} : () -> ()

// CHECK: [0, 0.125, 2, 10.125, 32, 78.125]
