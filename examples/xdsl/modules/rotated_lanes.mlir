"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<64xf32>, %arg1: memref<64xf32>, %arg2: memref<64xi1>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 32 : i32} : () -> i32
      %6 = "arith.constant"() {value = 5 : i32} : () -> i32
      %7 = "memref.load"(%arg0, %4) : (memref<64xf32>, index) -> f32
      %8:2 = "gpu.shuffle"(%7, %6, %5) {mode = #gpu<shuffle_mode up>} : (f32, i32, i32) -> (f32, i1)
      %9:2 = "gpu.shuffle"(%8#0, %6, %5) {mode = #gpu<shuffle_mode xor>} : (f32, i32, i32) -> (f32, i1)
      %10 = "arith.addf"(%9#0, %7) {fastmath = #arith.fastmath<none>} : (f32, f32) -> f32
      "memref.store"(%10, %arg1, %4) : (f32, memref<64xf32>, index) -> ()
      "memref.store"(%8#1, %arg2, %4) : (i1, memref<64xi1>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<64xf32>, memref<64xf32>, memref<64xi1>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>, sym_name = "rotated_lanes", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
