"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi64>, %arg1: memref<16xi32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 0 : i32} : () -> i32
      %6 = "arith.constant"() {value = 1 : i32} : () -> i32
      %7 = "arith.constant"() {value = 1 : i64} : () -> i64
      %8 = "arith.constant"() {value = 2 : i64} : () -> i64
      %9 = "arith.constant"() {value = 3 : i64} : () -> i64
      %10 = "memref.load"(%arg0, %4) : (memref<16xi64>, index) -> i64
      %11 = "math.absi"(%10) : (i64) -> i64
      %12 = "arith.addi"(%11, %7) : (i64, i64) -> i64
      %13:2 = "scf.while"(%12, %5) ({
      ^bb0(%arg2: i64, %arg3: i32):
        %14 = "arith.cmpi"(%arg2, %7) {predicate = 8 : i64} : (i64, i64) -> i1
        "scf.condition"(%14, %arg2, %arg3) : (i1, i64, i32) -> ()
      }, {
      ^bb0(%arg2: i64, %arg3: i32):
        %14 = "arith.andi"(%arg2, %7) : (i64, i64) -> i64
        %15 = "arith.trunci"(%14) : (i64) -> i1
        %16 = "scf.if"(%15) ({
          %18 = "arith.muli"(%arg2, %9) : (i64, i64) -> i64
          %19 = "arith.addi"(%18, %7) : (i64, i64) -> i64
          "scf.yield"(%19) : (i64) -> ()
        }, {
          %18 = "arith.shrui"(%arg2, %7) : (i64, i64) -> i64
          "scf.yield"(%18) : (i64) -> ()
        }) : (i1) -> i64
        %17 = "arith.addi"(%arg3, %6) : (i32, i32) -> i32
        "scf.yield"(%16, %17) : (i64, i32) -> ()
      }) : (i64, i32) -> (i64, i32)
      "memref.store"(%13#1, %arg1, %4) : (i32, memref<16xi32>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi64>, memref<16xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "collatz", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
