"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi32>, %arg1: memref<16xi32>, %arg2: memref<14x16xi32>):
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
      %19 = "memref.load"(%arg0, %4) : (memref<16xi32>, index) -> i32
      %20 = "memref.load"(%arg1, %4) : (memref<16xi32>, index) -> i32
      %21 = "arith.addi"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%21, %arg2, %5, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %22 = "arith.subi"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%22, %arg2, %6, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %23 = "arith.muli"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%23, %arg2, %7, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %24 = "arith.andi"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%24, %arg2, %8, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %25 = "arith.ori"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%25, %arg2, %9, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %26 = "arith.xori"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%26, %arg2, %10, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %27 = "arith.maxsi"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%27, %arg2, %11, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %28 = "arith.maxui"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%28, %arg2, %12, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %29 = "arith.minsi"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%29, %arg2, %13, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %30 = "arith.minui"(%19, %20) : (i32, i32) -> i32
      "memref.store"(%30, %arg2, %14, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %31 = "math.absi"(%19) : (i32) -> i32
      "memref.store"(%31, %arg2, %15, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %32 = "math.ctlz"(%19) : (i32) -> i32
      "memref.store"(%32, %arg2, %16, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %33 = "math.cttz"(%19) : (i32) -> i32
      "memref.store"(%33, %arg2, %17, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      %34 = "math.ctpop"(%19) : (i32) -> i32
      "memref.store"(%34, %arg2, %18, %4) : (i32, memref<14x16xi32>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi32>, memref<16xi32>, memref<14x16xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "integers_i32", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
