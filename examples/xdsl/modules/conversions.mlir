"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi8>, %arg1: memref<16xf32>, %arg2: memref<16xi64>, %arg3: memref<16xi32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "memref.load"(%arg0, %4) : (memref<16xi8>, index) -> i8
      %6 = "arith.uitofp"(%5) : (i8) -> f32
      %7 = "arith.sitofp"(%5) : (i8) -> f16
      %8 = "arith.extf"(%7) : (f16) -> f32
      %9 = "arith.addf"(%6, %8) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      "memref.store"(%9, %arg1, %4) : (f32, memref<16xf32>, index) -> ()
      %10 = "arith.extsi"(%5) : (i8) -> i64
      %11 = "arith.extui"(%5) : (i8) -> i64
      %12 = "arith.subi"(%10, %11) : (i64, i64) -> i64
      "memref.store"(%12, %arg2, %4) : (i64, memref<16xi64>, index) -> ()
      %13 = "arith.bitcast"(%7) : (f16) -> i16
      %14 = "arith.extui"(%13) : (i16) -> i32
      %15 = "arith.bitcast"(%6) : (f32) -> i32
      %16 = "arith.fptosi"(%8) : (f32) -> i32
      %17 = "arith.xori"(%14, %15) : (i32, i32) -> i32
      %18 = "arith.addi"(%17, %16) : (i32, i32) -> i32
      "memref.store"(%18, %arg3, %4) : (i32, memref<16xi32>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi8>, memref<16xf32>, memref<16xi64>, memref<16xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "conversions", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
