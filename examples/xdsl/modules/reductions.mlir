"builtin.module"() ({
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<8x4x6xf32>, memref<2x8xf32>) -> ()}> ({
    ^bb0(%arg0: memref<8x4x6xf32>, %arg1: memref<2x8xf32>):
      %0 = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
      %1 = "gpu.block_dim"() <{dimension = #gpu<dim x>}> : () -> index
      %2 = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
      %3 = "arith.muli"(%0, %1) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
      %4 = "arith.addi"(%3, %2) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
      %5 = "arith.constant"() <{value = 0 : index}> : () -> index
      %6 = "arith.constant"() <{value = 1 : index}> : () -> index
      %7 = "arith.constant"() <{value = 2 : index}> : () -> index
      %8 = "arith.constant"() <{value = 4 : index}> : () -> index
      %9 = "arith.constant"() <{value = 6 : index}> : () -> index
      %10 = "arith.constant"() <{value = 1.000000e-01 : f32}> : () -> f32
      %11 = "arith.constant"() <{value = -1.000000e+03 : f32}> : () -> f32
      %12, %13 = "scf.parallel"(%5, %6, %8, %9, %6, %7, %10, %11) <{operandSegmentSizes = array<i32: 2, 2, 2, 2>}> ({
      ^bb0(%arg2: index, %arg3: index):
        %14 = "memref.load"(%arg0, %4, %arg2, %arg3) : (memref<8x4x6xf32>, index, index, index) -> f32
        %15 = "arith.mulf"(%14, %14) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
        "scf.reduce"(%15, %14) ({
        ^bb0(%arg4: f32, %arg5: f32):
          %16 = "arith.addf"(%arg4, %arg5) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "scf.reduce.return"(%16) : (f32) -> ()
        }, {
        ^bb0(%arg4_1: f32, %arg5_1: f32):
          %17 = "arith.cmpf"(%arg4_1, %arg5_1) <{predicate = 2 : i64, fastmath = #arith.fastmath<none>}> : (f32, f32) -> i1
          %18 = "arith.select"(%17, %arg4_1, %arg5_1) : (i1, f32, f32) -> f32
          "scf.reduce.return"(%18) : (f32) -> ()
        }) : (f32, f32) -> ()
      }) : (index, index, index, index, index, index, f32, f32) -> (f32, f32)
      "memref.store"(%12, %arg1, %5, %4) : (f32, memref<2x8xf32>, index, index) -> ()
      "memref.store"(%13, %arg1, %6, %4) : (f32, memref<2x8xf32>, index, index) -> ()
      "gpu.return"() : () -> ()
    }) {gpu.kernel, gpu.known_block_size = array<i32: 4, 1, 1>, sym_name = "reductions", workgroup_attributions = 0 : i64} : () -> ()
    "gpu.module_end"() : () -> ()
  }) : () -> ()
}) : () -> ()
