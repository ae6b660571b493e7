"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xf32>, %arg1: memref<16xf32>, %arg2: memref<4x16xf32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 0 : index} : () -> index
      %6 = "arith.constant"() {value = 1 : index} : () -> index
      %7 = "arith.constant"() {value = 2 : index} : () -> index
      %8 = "arith.constant"() {value = 3 : index} : () -> index
      %9 = "memref.load"(%arg0, %4) : (memref<16xf32>, index) -> f32
      %10 = "math.sqrt"(%9) {fastmath = #arith.fastmath<none>} : (f32) -> f32
      %11 = "memref.load"(%arg1, %4) : (memref<16xf32>, index) -> f32
      %12 = "arith.maximumf"(%10, %11) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      %13 = "arith.minimumf"(%10, %11) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      %14 = "arith.maxnumf"(%10, %11) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      %15 = "arith.minnumf"(%10, %11) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      "memref.store"(%12, %arg2, %5, %4) : (f32, memref<4x16xf32>, index, index) -> ()
      "memref.store"(%13, %arg2, %6, %4) : (f32, memref<4x16xf32>, index, index) -> ()
      "memref.store"(%14, %arg2, %7, %4) : (f32, memref<4x16xf32>, index, index) -> ()
      "memref.store"(%15, %arg2, %8, %4) : (f32, memref<4x16xf32>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xf32>, memref<16xf32>, memref<4x16xf32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "extrema", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
