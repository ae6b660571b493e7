"builtin.module"() ({
  "gpu.module"() ({
    "gpu.func"() ({
    ^bb0(%arg0: memref<16xi32>, %arg1: memref<16xi32>, %arg2: memref<7x16xi32>):
      %0 = "gpu.block_id"() {dimension = #gpu<dim x>} : () -> index
      %1 = "gpu.block_dim"() {dimension = #gpu<dim x>} : () -> index
      %2 = "gpu.thread_id"() {dimension = #gpu<dim x>} : () -> index
      %3 = "arith.muli"(%0, %1) : (index, index) -> index
      %4 = "arith.addi"(%3, %2) : (index, index) -> index
      %5 = "arith.constant"() {value = 1 : i32} : () -> i32
      %6 = "memref.load"(%arg0, %4) : (memref<16xi32>, index) -> i32
      %7 = "memref.load"(%arg1, %4) : (memref<16xi32>, index) -> i32
      %8 = "arith.ori"(%7, %5) : (i32, i32) -> i32
      %9 = "arith.constant"() {value = 0 : index} : () -> index
      %10 = "arith.divsi"(%6, %8) : (i32, i32) -> i32
      "memref.store"(%10, %arg2, %9, %4) : (i32, memref<7x16xi32>, index, index) -> ()
      %11 = "arith.constant"() {value = 1 : index} : () -> index
      %12 = "arith.divui"(%6, %8) : (i32, i32) -> i32
      "memref.store"(%12, %arg2, %11, %4) : (i32, memref<7x16xi32>, index, index) -> ()
      %13 = "arith.constant"() {value = 2 : index} : () -> index
      %14 = "arith.remsi"(%6, %8) : (i32, i32) -> i32
      "memref.store"(%14, %arg2, %13, %4) : (i32, memref<7x16xi32>, index, index) -> ()
      %15 = "arith.constant"() {value = 3 : index} : () -> index
      %16 = "arith.remui"(%6, %8) : (i32, i32) -> i32
      "memref.store"(%16, %arg2, %15, %4) : (i32, memref<7x16xi32>, index, index) -> ()
      %17 = "arith.constant"() {value = 4 : index} : () -> index
      %18 = "arith.floordivsi"(%6, %8) : (i32, i32) -> i32
      "memref.store"(%18, %arg2, %17, %4) : (i32, memref<7x16xi32>, index, index) -> ()
      %19 = "arith.constant"() {value = 5 : index} : () -> index
      %20 = "arith.ceildivsi"(%6, %8) : (i32, i32) -> i32
      "memref.store"(%20, %arg2, %19, %4) : (i32, memref<7x16xi32>, index, index) -> ()
      %21 = "arith.constant"() {value = 6 : index} : () -> index
      %22 = "arith.ceildivui"(%6, %8) : (i32, i32) -> i32
      "memref.store"(%22, %arg2, %21, %4) : (i32, memref<7x16xi32>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {function_type = (memref<16xi32>, memref<16xi32>, memref<7x16xi32>) -> (), gpu.kernel, gpu.known_block_size = array<i32: 8, 1, 1>, sym_name = "divisions", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) {sym_name = "kernels"} : () -> ()
}) : () -> ()
