"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi16>, %arg1: memref<16xi16>, %arg2: memref<10x16xi1>):
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
      %15 = "memref.load"(%arg0, %4) : (memref<16xi16>, index) -> i16
      %16 = "memref.load"(%arg1, %4) : (memref<16xi16>, index) -> i16
      %17 = "arith.cmpi"(%15, %16) {predicate = 0 : i64} : (i16, i16) -> i1
      "memref.store"(%17, %arg2, %5, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      %18 = "arith.cmpi"(%15, %16) {predicate = 1 : i64} : (i16, i16) -> i1
      "memref.store"(%18, %arg2, %6, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      %19 = "arith.cmpi"(%15, %16) {predicate = 2 : i64} : (i16, i16) -> i1
      "memref.store"(%19, %arg2, %7, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      %20 = "arith.cmpi"(%15, %16) {predicate = 3 : i64} : (i16, i16) -> i1
      "memref.store"(%20, %arg2, %8, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      %21 = "arith.cmpi"(%15, %16) {predicate = 4 : i64} : (i16, i16) -> i1
      "memref.store"(%21, %arg2, %9, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      %22 = "arith.cmpi"(%15, %16) {predicate = 5 : i64} : (i16, i16) -> i1
      "memref.store"(%22, %arg2, %10, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      %23 = "arith.cmpi"(%15, %16) {predicate = 6 : i64} : (i16, i16) -> i1
      "memref.store"(%23, %arg2, %11, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      %24 = "arith.cmpi"(%15, %16) {predicate = 7 : i64} : (i16, i16) -> i1
      "memref.store"(%24, %arg2, %12, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      %25 = "arith.cmpi"(%15, %16) {predicate = 8 : i64} : (i16, i16) -> i1
      "memref.store"(%25, %arg2, %13, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      %26 = "arith.cmpi"(%15, %16) {predicate = 9 : i64} : (i16, i16) -> i1
      "memref.store"(%26, %arg2, %14, %4) : (i1, memref<10x16xi1>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi16>, memref<16xi16>, memref<10x16xi1>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "orders", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
