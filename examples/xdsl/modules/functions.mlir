"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xf32>, %arg1: memref<16xf32>, %arg2: memref<7x16xf32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 0 : index} : () -> index
      %6 = "arith.constant"() {value = 1 : index} : () -> index
      %7 = "arith.constant"() {value = 2 : index} : () -> index
      %8 = "arith.constant"() {value = 3 : index} : () -> index
      %9 = "arith.constant"() {value = 4 : index} : () -> index
      %10 = "arith.constant"() {value = 5 : index} : () -> index
      %11 = "arith.constant"() {value = 6 : index} : () -> index
      %12 = "memref.load"(%arg0, %4) : (memref<16xf32>, index) -> f32
      %13 = "memref.load"(%arg1, %4) : (memref<16xf32>, index) -> f32
      %14 = "math.exp"(%12) {fastmath = #arith.fastmath<none>} : (f32) -> f32
      "memref.store"(%14, %arg2, %5, %4) : (f32, memref<7x16xf32>, index, index) -> ()
      %15 = "math.exp2"(%12) {fastmath = #arith.fastmath<none>} : (f32) -> f32
      "memref.store"(%15, %arg2, %6, %4) : (f32, memref<7x16xf32>, index, index) -> ()
      %16 = "math.sin"(%12) {fastmath = #arith.fastmath<none>} : (f32) -> f32
      "memref.store"(%16, %arg2, %7, %4) : (f32, memref<7x16xf32>, index, index) -> ()
      %17 = "math.cos"(%12) {fastmath = #arith.fastmath<none>} : (f32) -> f32
      "memref.store"(%17, %arg2, %8, %4) : (f32, memref<7x16xf32>, index, index) -> ()
      %18 = "math.tanh"(%12) {fastmath = #arith.fastmath<none>} : (f32) -> f32
      "memref.store"(%18, %arg2, %9, %4) : (f32, memref<7x16xf32>, index, index) -> ()
      %19 = "math.atan"(%12) {fastmath = #arith.fastmath<none>} : (f32) -> f32
      "memref.store"(%19, %arg2, %10, %4) : (f32, memref<7x16xf32>, index, index) -> ()
      %20 = "math.rsqrt"(%13) {fastmath = #arith.fastmath<none>} : (f32) -> f32
      "memref.store"(%20, %arg2, %11, %4) : (f32, memref<7x16xf32>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xf32>, memref<16xf32>, memref<7x16xf32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "functions", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
