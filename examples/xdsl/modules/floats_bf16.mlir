"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xbf16>, %arg1: memref<16xbf16>, %arg2: memref<16xi16>, %arg3: memref<8x16xbf16>, %arg4: memref<16xf32>):
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
      %12 = "arith.constant"() {value = 7 : index} : () -> index
      %13 = "arith.constant"() {value = 1.000980e-01 : bf16} : () -> bf16
      %14 = "memref.load"(%arg0, %4) : (memref<16xbf16>, index) -> bf16
      %15 = "memref.load"(%arg1, %4) : (memref<16xbf16>, index) -> bf16
      %16 = "memref.load"(%arg2, %4) : (memref<16xi16>, index) -> i16
      %17 = "arith.addf"(%14, %15) {fastmath = #arith.fastmath<none>} : (bf16, bf16) -> bf16
      %18 = "arith.subf"(%17, %13) {fastmath = #arith.fastmath<none>} : (bf16, bf16) -> bf16
      %19 = "arith.mulf"(%14, %15) {fastmath = #arith.fastmath<none>} : (bf16, bf16) -> bf16
      %20 = "math.absf"(%15) {fastmath = #arith.fastmath<none>} : (bf16) -> bf16
      %21 = "arith.addf"(%20, %13) {fastmath = #arith.fastmath<none>} : (bf16, bf16) -> bf16
      %22 = "arith.divf"(%14, %21) {fastmath = #arith.fastmath<none>} : (bf16, bf16) -> bf16
      %23 = "math.sqrt"(%21) {fastmath = #arith.fastmath<none>} : (bf16) -> bf16
      %24 = "arith.maxf"(%14, %15) {fastmath = #arith.fastmath<none>} : (bf16, bf16) -> bf16
      %25 = "arith.sitofp"(%16) : (i16) -> bf16
      %26 = "arith.cmpf"(%14, %15) {predicate = 4 : i64} : (bf16, bf16) -> i1
      %27 = "arith.select"(%26, %14, %25) : (i1, bf16, bf16) -> bf16
      %28 = "arith.extf"(%19) : (bf16) -> f32
      %29 = "arith.mulf"(%28, %28) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      %30 = "arith.truncf"(%29) : (f32) -> bf16
      "memref.store"(%18, %arg3, %5, %4) : (bf16, memref<8x16xbf16>, index, index) -> ()
      "memref.store"(%19, %arg3, %6, %4) : (bf16, memref<8x16xbf16>, index, index) -> ()
      "memref.store"(%22, %arg3, %7, %4) : (bf16, memref<8x16xbf16>, index, index) -> ()
      "memref.store"(%23, %arg3, %8, %4) : (bf16, memref<8x16xbf16>, index, index) -> ()
      "memref.store"(%24, %arg3, %9, %4) : (bf16, memref<8x16xbf16>, index, index) -> ()
      "memref.store"(%25, %arg3, %10, %4) : (bf16, memref<8x16xbf16>, index, index) -> ()
      "memref.store"(%27, %arg3, %11, %4) : (bf16, memref<8x16xbf16>, index, index) -> ()
      "memref.store"(%30, %arg3, %12, %4) : (bf16, memref<8x16xbf16>, index, index) -> ()
      "memref.store"(%29, %arg4, %4) : (f32, memref<16xf32>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xbf16>, memref<16xbf16>, memref<16xi16>, memref<8x16xbf16>, memref<16xf32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "floats_bf16", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
