"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xf64>, %arg1: memref<16xf64>, %arg2: memref<16x16xf64>):
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
      %13 = "arith.constant"() {value = 8 : index} : () -> index
      %14 = "arith.constant"() {value = 9 : index} : () -> index
      %15 = "arith.constant"() {value = 10 : index} : () -> index
      %16 = "arith.constant"() {value = 11 : index} : () -> index
      %17 = "arith.constant"() {value = 12 : index} : () -> index
      %18 = "arith.constant"() {value = 13 : index} : () -> index
      %19 = "arith.constant"() {value = 14 : index} : () -> index
      %20 = "arith.constant"() {value = 15 : index} : () -> index
      %21 = "memref.load"(%arg0, %4) : (memref<16xf64>, index) -> f64
      %22 = "memref.load"(%arg1, %4) : (memref<16xf64>, index) -> f64
      %23 = "arith.addf"(%21, %22) {fastmath = #arith.fastmath<none>} : (f64, f64) -> f64
      "memref.store"(%23, %arg2, %5, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %24 = "arith.subf"(%21, %22) {fastmath = #arith.fastmath<none>} : (f64, f64) -> f64
      "memref.store"(%24, %arg2, %6, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %25 = "arith.mulf"(%21, %22) {fastmath = #arith.fastmath<none>} : (f64, f64) -> f64
      "memref.store"(%25, %arg2, %7, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %26 = "arith.divf"(%21, %22) {fastmath = #arith.fastmath<none>} : (f64, f64) -> f64
      "memref.store"(%26, %arg2, %8, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %27 = "arith.maxf"(%21, %22) {fastmath = #arith.fastmath<none>} : (f64, f64) -> f64
      "memref.store"(%27, %arg2, %9, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %28 = "arith.minf"(%21, %22) {fastmath = #arith.fastmath<none>} : (f64, f64) -> f64
      "memref.store"(%28, %arg2, %10, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %29 = "arith.negf"(%21) {fastmath = #arith.fastmath<none>} : (f64) -> f64
      "memref.store"(%29, %arg2, %11, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %30 = "math.absf"(%21) {fastmath = #arith.fastmath<none>} : (f64) -> f64
      "memref.store"(%30, %arg2, %12, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %31 = "math.ceil"(%21) {fastmath = #arith.fastmath<none>} : (f64) -> f64
      "memref.store"(%31, %arg2, %13, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %32 = "math.floor"(%21) {fastmath = #arith.fastmath<none>} : (f64) -> f64
      "memref.store"(%32, %arg2, %14, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %33 = "math.trunc"(%21) {fastmath = #arith.fastmath<none>} : (f64) -> f64
      "memref.store"(%33, %arg2, %15, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %34 = "math.round"(%21) {fastmath = #arith.fastmath<none>} : (f64) -> f64
      "memref.store"(%34, %arg2, %16, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %35 = "math.roundeven"(%21) {fastmath = #arith.fastmath<none>} : (f64) -> f64
      "memref.store"(%35, %arg2, %17, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %36 = "math.sqrt"(%21) {fastmath = #arith.fastmath<none>} : (f64) -> f64
      "memref.store"(%36, %arg2, %18, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %37 = "math.copysign"(%21, %22) {fastmath = #arith.fastmath<none>} : (f64, f64) -> f64
      "memref.store"(%37, %arg2, %19, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      %38 = "math.fma"(%21, %22, %21) {fastmath = #arith.fastmath<none>} : (f64, f64, f64) -> f64
      "memref.store"(%38, %arg2, %20, %4) : (f64, memref<16x16xf64>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xf64>, memref<16xf64>, memref<16x16xf64>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "floats_f64", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
