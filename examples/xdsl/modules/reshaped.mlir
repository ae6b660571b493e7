"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<48xi32>, %arg1: memref<?x6xi32>, %arg2: memref<?x2x6xi32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 0 : index} : () -> index
      %6 = "arith.constant"() {value = 1 : index} : () -> index
      %7 = "arith.constant"() {value = 2 : index} : () -> index
      %8 = "arith.constant"() {value = 3 : index} : () -> index
      %9 = "arith.constant"() {value = 0 : i32} : () -> i32
      %10 = "arith.remui"(%4, %7) : (index, index) -> index
      %11 = "memref.expand_shape"(%arg0) {reassociation = [[0, 1, 2]]} : (memref<48xi32>) -> memref<8x2x3xi32>
      %12 = "memref.dim"(%arg1, %5) : (memref<?x6xi32>, index) -> index
      %13 = "arith.divui"(%12, %7) : (index, index) -> index
      %14 = "memref.expand_shape"(%arg1, %13) {static_output_shape = array<i64: -9223372036854775808, 2, 2, 3>, reassociation = [[0, 1], [2, 3]]} : (memref<?x6xi32>, index) -> memref<?x2x2x3xi32>
      %15 = "memref.collapse_shape"(%arg2) {reassociation = [[0], [1, 2]]} : (memref<?x2x6xi32>) -> memref<?x12xi32>
      %16 = "memref.dim"(%14, %5) : (memref<?x2x2x3xi32>, index) -> index
      %17 = "scf.for"(%5, %16, %6, %9) ({
      ^bb0(%arg3: index, %arg4: i32):
        %18 = "scf.for"(%5, %7, %6, %arg4) ({
        ^bb0(%arg5: index, %arg6: i32):
          %19 = "scf.for"(%5, %8, %6, %arg6) ({
          ^bb0(%arg7: index, %arg8: i32):
            %20 = "memref.load"(%11, %4, %arg5, %arg7) : (memref<8x2x3xi32>, index, index, index) -> i32
            %21 = "memref.load"(%14, %arg3, %10, %arg5, %arg7) : (memref<?x2x2x3xi32>, index, index, index, index) -> i32
            %22 = "arith.muli"(%20, %21) : (i32, i32) -> i32
            %23 = "arith.addi"(%arg8, %22) : (i32, i32) -> i32
            "scf.yield"(%23) : (i32) -> ()
          }) : (index, index, index, i32) -> i32
          "scf.yield"(%19) : (i32) -> ()
        }) : (index, index, index, i32) -> i32
        "scf.yield"(%18) : (i32) -> ()
      }) : (index, index, index, i32) -> i32
      "memref.store"(%17, %15, %6, %4) : (i32, memref<?x12xi32>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<48xi32>, memref<?x6xi32>, memref<?x2x6xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 4, 1, 1>, sym_name = "reshaped", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
