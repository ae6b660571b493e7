"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: index, %arg1: i32, %arg2: memref<3xi32>):
    %0 = "arith.constant"() {value = 0 : index} : () -> index
    %1 = "arith.constant"() {value = 1 : index} : () -> index
    %2 = "arith.constant"() {value = 2 : index} : () -> index
    %3 = "arith.constant"() {value = 10 : i32} : () -> i32
    %4 = "arith.constant"() {value = 20 : i32} : () -> i32
    %5 = "arith.constant"() {value = 30 : i32} : () -> i32
    %6 = "scf.index_switch"(%arg0) ({
      "scf.yield"(%arg1) : (i32) -> ()
    }, {
      "scf.yield"(%3) : (i32) -> ()
    }, {
      %9 = "arith.addi"(%arg1, %4) : (i32, i32) -> i32
      "scf.yield"(%9) : (i32) -> ()
    }) {cases = array<i64: 0, 2>} : (index) -> i32
    "memref.store"(%6, %arg2, %0) : (i32, memref<3xi32>, index) -> ()
    %7 = "scf.execute_region"() ({
      "cf.switch"(%arg1, %5, %4)[^bb2, ^bb1, ^bb2] {case_operand_segments = array<i32: 0, 1>, case_values = dense<[1, 2]> : vector<2xi32>, operand_segment_sizes = array<i32: 1, 1, 1>} : (i32, i32, i32) -> ()
    ^bb1:  // pred: ^bb0
      "scf.yield"(%3) : (i32) -> ()
    ^bb2(%9: i32):  // 2 preds: ^bb0, ^bb0
      %10 = "arith.muli"(%9, %arg1) : (i32, i32) -> i32
      "scf.yield"(%10) : (i32) -> ()
    }) : () -> i32
    "memref.store"(%7, %arg2, %1) : (i32, memref<3xi32>, index) -> ()
    %8 = "arith.cmpi"(%6, %7) {predicate = 2 : i64} : (i32, i32) -> i1
    "cf.cond_br"(%8)[^bb1, ^bb2] {operand_segment_sizes = array<i32: 1, 0, 0>} : (i1) -> ()
  ^bb1:  // pred: ^bb0
    "func.return"(%6) : (i32) -> ()
  ^bb2:  // pred: ^bb0
    "memref.store"(%3, %arg2, %2) : (i32, memref<3xi32>, index) -> ()
    "func.return"(%7) : (i32) -> ()
  }) {function_type = (index, i32, memref<3xi32>) -> i32, sym_name = "switches"} : () -> ()
}) : () -> ()
