"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi32>, %arg1: memref<16xi32>, %arg2: memref<3x16xi32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 0 : index} : () -> index
      %6 = "arith.constant"() {value = 1 : index} : () -> index
      %7 = "arith.constant"() {value = 2 : index} : () -> index
      %8 = "arith.constant"() {value = 0 : i32} : () -> i32
      %9 = "arith.constant"() {value = 1 : i32} : () -> i32
      %10 = "arith.constant"() {value = 7 : i32} : () -> i32
      %11 = "arith.constant"() {value = 12 : i32} : () -> i32
      %12 = "arith.constant"() {value = 50 : i32} : () -> i32
      %13 = "memref.load"(%arg0, %4) : (memref<16xi32>, index) -> i32
      %14 = "memref.load"(%arg1, %4) : (memref<16xi32>, index) -> i32
      %15 = "math.absi"(%13) : (i32) -> i32
      %16 = "math.absi"(%14) : (i32) -> i32
      "cf.br"(%15, %16)[^bb1] : (i32, i32) -> ()
    ^bb1(%17: i32, %18: i32):  // 2 preds: ^bb0, ^bb2
      %19 = "arith.cmpi"(%18, %8) {predicate = 0 : i64} : (i32, i32) -> i1
      "cf.cond_br"(%19)[^bb3, ^bb2] {operand_segment_sizes = array<i32: 1, 0, 0>} : (i1) -> ()
    ^bb2:  // pred: ^bb1
      %20 = "arith.remsi"(%17, %18) : (i32, i32) -> i32
      "cf.br"(%18, %20)[^bb1] : (i32, i32) -> ()
    ^bb3:  // pred: ^bb1
      "memref.store"(%17, %arg2, %5, %4) : (i32, memref<3x16xi32>, index, index) -> ()
      "cf.br"(%8, %8)[^bb4] : (i32, i32) -> ()
    ^bb4(%21: i32, %22: i32):  // 3 preds: ^bb3, ^bb7, ^bb8
      "cf.br"(%8, %22)[^bb5] : (i32, i32) -> ()
    ^bb5(%23: i32, %24: i32):  // 2 preds: ^bb4, ^bb6
      %25 = "arith.muli"(%21, %23) : (i32, i32) -> i32
      %26 = "arith.addi"(%24, %25) : (i32, i32) -> i32
      %27 = "arith.cmpi"(%26, %15) {predicate = 4 : i64} : (i32, i32) -> i1
      "cf.cond_br"(%27)[^bb10, ^bb6] {operand_segment_sizes = array<i32: 1, 0, 0>} : (i1) -> ()
    ^bb6:  // pred: ^bb5
      %28 = "arith.addi"(%23, %9) : (i32, i32) -> i32
      %29 = "arith.cmpi"(%28, %10) {predicate = 2 : i64} : (i32, i32) -> i1
      "cf.cond_br"(%29, %28, %26)[^bb5, ^bb7] {operand_segment_sizes = array<i32: 1, 2, 0>} : (i1, i32, i32) -> ()
    ^bb7:  // pred: ^bb6
      %30 = "arith.addi"(%21, %9) : (i32, i32) -> i32
      %31 = "arith.andi"(%30, %9) : (i32, i32) -> i32
      %32 = "arith.cmpi"(%31, %9) {predicate = 0 : i64} : (i32, i32) -> i1
      "cf.cond_br"(%32, %30, %24)[^bb4, ^bb8] {operand_segment_sizes = array<i32: 1, 2, 0>} : (i1, i32, i32) -> ()
    ^bb8:  // pred: ^bb7
      %33 = "arith.cmpi"(%30, %11) {predicate = 2 : i64} : (i32, i32) -> i1
      "cf.cond_br"(%33, %30, %26)[^bb4, ^bb9] {operand_segment_sizes = array<i32: 1, 2, 0>} : (i1, i32, i32) -> ()
    ^bb9:  // pred: ^bb8
      "memref.store"(%30, %arg2, %6, %4) : (i32, memref<3x16xi32>, index, index) -> ()
      "cf.br"(%26)[^bb11] : (i32) -> ()
    ^bb10:  // pred: ^bb5
      "memref.store"(%23, %arg2, %6, %4) : (i32, memref<3x16xi32>, index, index) -> ()
      "cf.br"(%24)[^bb11] : (i32) -> ()
    ^bb11(%34: i32):  // 2 preds: ^bb9, ^bb10
      "memref.store"(%34, %arg2, %7, %4) : (i32, memref<3x16xi32>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi32>, memref<16xi32>, memref<3x16xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "loops_of_blocks", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
