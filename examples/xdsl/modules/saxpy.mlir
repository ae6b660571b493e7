"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: f32, %arg1: memref<?xf32>, %arg2: memref<?xf32>):
      %0 = "arith.constant"() {value = 0 : index} : () -> index
      %1 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %3 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %4 = "arith.muli"(%1, %2) : (index, index) -> index
      %5 = "arith.addi"(%4, %3) : (index, index) -> index
      %6 = "memref.dim"(%arg2, %0) : (memref<?xf32>, index) -> index
      %7 = "arith.cmpi"(%5, %6) {predicate = 6 : i64} : (index, index) -> i1
      "scf.if"(%7) ({
        %8 = "memref.load"(%arg1, %5) : (memref<?xf32>, index) -> f32
        %9 = "memref.load"(%arg2, %5) : (memref<?xf32>, index) -> f32
        %10 = "arith.mulf"(%arg0, %8) {fastmath = #arith.fastmath<fast>} : (f32, f32) -> f32
        %11 = "arith.addf"(%10, %9) {fastmath = #arith.fastmath<contract>} : (f32, f32) -> f32
        "memref.store"(%11, %arg2, %5) : (f32, memref<?xf32>, index) -> ()
        "scf.yield"() : () -> ()
      }, {
      }) : (i1) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (f32, memref<?xf32>, memref<?xf32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "saxpy", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
