"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<13xi32>, %arg1: memref<13xi32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 13 : index} : () -> index
      %6 = "arith.constant"() {value = 0 : i32} : () -> i32
      %7 = "arith.constant"() {value = 1 : i32} : () -> i32
      %8 = "arith.constant"() {value = -1 : i32} : () -> i32
      %9 = "arith.constant"() {value = 100 : i32} : () -> i32
      %10 = "arith.constant"() {value = 3 : i32} : () -> i32
      %11 = "arith.cmpi"(%4, %5) {predicate = 5 : i64} : (index, index) -> i1
      "cf.cond_br"(%11)[^bb1, ^bb2] {operand_segment_sizes = array<i32: 1, 0, 0>} : (i1) -> ()
    ^bb1:  // pred: ^bb0
      "gpu.return"() : () -> ()
    ^bb2:  // pred: ^bb0
      %12 = "memref.load"(%arg0, %4) : (memref<13xi32>, index) -> i32
      %13 = "arith.cmpi"(%12, %6) {predicate = 2 : i64} : (i32, i32) -> i1
      "cf.cond_br"(%13, %8)[^bb4, ^bb3] {operand_segment_sizes = array<i32: 1, 1, 0>} : (i1, i32) -> ()
    ^bb3:  // pred: ^bb2
      %14 = "arith.cmpi"(%12, %6) {predicate = 4 : i64} : (i32, i32) -> i1
      "cf.cond_br"(%14, %7, %6)[^bb4, ^bb4] {operand_segment_sizes = array<i32: 1, 1, 1>} : (i1, i32, i32) -> ()
    ^bb4(%15: i32):  // 3 preds: ^bb2, ^bb3, ^bb3
      %16 = "arith.cmpi"(%12, %9) {predicate = 4 : i64} : (i32, i32) -> i1
      "cf.cond_br"(%16)[^bb6, ^bb5] {operand_segment_sizes = array<i32: 1, 0, 0>} : (i1) -> ()
    ^bb5:  // pred: ^bb4
      %17 = "arith.remsi"(%12, %10) : (i32, i32) -> i32
      %18 = "arith.cmpi"(%17, %6) {predicate = 0 : i64} : (i32, i32) -> i1
      "cf.cond_br"(%18)[^bb6, ^bb7] {operand_segment_sizes = array<i32: 1, 0, 0>} : (i1) -> ()
    ^bb6:  // 2 preds: ^bb4, ^bb5
      %19 = "arith.muli"(%15, %9) : (i32, i32) -> i32
      "cf.br"(%19)[^bb8] : (i32) -> ()
    ^bb7:  // pred: ^bb5
      "cf.br"(%15)[^bb8] : (i32) -> ()
    ^bb8(%20: i32):  // 2 preds: ^bb6, ^bb7
      "memref.store"(%20, %arg1, %4) : (i32, memref<13xi32>, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<13xi32>, memref<13xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "branches", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
