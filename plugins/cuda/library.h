/* library.h - cuBLASLt, cuDNN and NCCL, found at their first use: each is optional, and what
 * it would do is done by the families' kernels, or by the host, where it is not there.
 *
 * Names, values and signatures are those of the cuBLAS 12.x to 13.x, cuDNN 8.x to 9.x and
 * NCCL 2.x manuals; tests/header_test.c compares them with the headers where those are there. Of
 * cuDNN it is the API of descriptors, which both versions have. */
#ifndef KEEL_CUDA_LIBRARY_H
#define KEEL_CUDA_LIBRARY_H

#include "api.h"

/* cudaDataType */
enum {
  LT_F32 = 0,
  LT_F64 = 1,
  LT_F16 = 2,
  LT_I8 = 3,
  LT_I32 = 10,
  LT_BF16 = 14
};

/* cublasComputeType_t */
enum {
  LT_COMPUTE_F32 = 68,
  LT_COMPUTE_F64 = 70,
  LT_COMPUTE_I32 = 72,
  LT_COMPUTE_TF32 = 77
};

/* attributes, and their values */
enum {
  LT_DESC_TRANSA = 3,
  LT_DESC_TRANSB = 4,
  LT_DESC_EPILOGUE = 7,
  LT_DESC_BIAS_POINTER = 8,
  LT_LAYOUT_BATCH_COUNT = 5,
  LT_LAYOUT_BATCH_OFFSET = 6,
  LT_PREF_WORKSPACE = 1,
  LT_PREF_REDUCTIONS = 3,    /* bits: how sums of parts of k may be joined */
  LT_PREF_ALIGNMENT_A = 5,   /* and of B, C and D: 6, 7, 8 */
  LT_REDUCTION_IN_PLACE = 1, /* in the type of the result */
  LT_REDUCTION_COMPUTE_TYPE = 2,
  LT_OP_T = 1,
  LT_EPILOGUE_DEFAULT = 1,
  LT_EPILOGUE_BIAS = 4,
  LT_EPILOGUE_GELU = 32, /* by its approximation with tanh */
  LT_EPILOGUE_GELU_BIAS = 36
};

typedef struct lt_handle_of *lt_handle;
typedef struct lt_desc_of *lt_desc;
typedef struct lt_layout_of *lt_layout;
typedef struct lt_preference_of *lt_preference;
typedef struct lt_algo { /* cublasLtMatmulAlgo_t */
  uint64_t data[8];
} lt_algo;
typedef struct lt_choice { /* cublasLtMatmulHeuristicResult_t */
  lt_algo algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} lt_choice;

/* X(field, symbol, arguments) */
/* clang-format off */
#define LT_FUNCTIONS(X) \
  X(Create, cublasLtCreate, (lt_handle *handle)) \
  X(Destroy, cublasLtDestroy, (lt_handle handle)) \
  X(MatmulDescCreate, cublasLtMatmulDescCreate, \
    (lt_desc *desc, int compute, int scale)) \
  X(MatmulDescDestroy, cublasLtMatmulDescDestroy, (lt_desc desc)) \
  X(MatmulDescSetAttribute, cublasLtMatmulDescSetAttribute, \
    (lt_desc desc, int attribute, const void *value, size_t size)) \
  X(MatrixLayoutCreate, cublasLtMatrixLayoutCreate, \
    (lt_layout *layout, int type, uint64_t rows, uint64_t columns, \
     int64_t leading)) \
  X(MatrixLayoutDestroy, cublasLtMatrixLayoutDestroy, (lt_layout layout)) \
  X(MatrixLayoutSetAttribute, cublasLtMatrixLayoutSetAttribute, \
    (lt_layout layout, int attribute, const void *value, size_t size)) \
  X(MatmulPreferenceCreate, cublasLtMatmulPreferenceCreate, \
    (lt_preference *preference)) \
  X(MatmulPreferenceDestroy, cublasLtMatmulPreferenceDestroy, \
    (lt_preference preference)) \
  X(MatmulPreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute, \
    (lt_preference preference, int attribute, const void *value, size_t size)) \
  X(MatmulAlgoGetHeuristic, cublasLtMatmulAlgoGetHeuristic, \
    (lt_handle handle, lt_desc desc, lt_layout a, lt_layout b, lt_layout c, \
     lt_layout d, lt_preference preference, int wanted, lt_choice *choices, \
     int *count)) \
  X(Matmul, cublasLtMatmul, \
    (lt_handle handle, lt_desc desc, const void *alpha, const void *a, \
     lt_layout a_layout, const void *b, lt_layout b_layout, const void *beta, \
     const void *c, lt_layout c_layout, void *d, lt_layout d_layout, \
     const lt_algo *algo, void *workspace, size_t size, cu_stream stream))
/* clang-format on */

typedef struct lt_api {
#define LT_FIELD(name, symbol, arguments) int(*name) arguments;
  LT_FUNCTIONS(LT_FIELD)
#undef LT_FIELD
  size_t (*GetVersion)(void);
  const char *(*GetStatusName)(int status);
  int version; /* 10000 major + 100 minor + patch; 0: there is none */
} lt_api;

extern lt_api lt;

/* ---- cuDNN -------------------------------------------------------------------------- */

/* cudnnDataType_t, and values of other enumerations */
enum {
  DNN_F32 = 0,
  DNN_F64 = 1,
  DNN_F16 = 2,
  DNN_BF16 = 9,
  DNN_NCHW = 0,
  DNN_CROSS_CORRELATION = 1,
  DNN_DEFAULT_MATH = 0,
  DNN_TENSOR_OP_MATH = 1,
  DNN_FMA_MATH = 3,
  DNN_PROPAGATE_NAN = 1,
  DNN_RELU = 1,
  DNN_IDENTITY = 5,
  DNN_DETERMINISTIC = 1,
  DNN_PRECOMP_GEMM = 1,
  DNN_ALGOS = 8
};

typedef struct dnn_handle_of *dnn_handle;
typedef struct dnn_tensor_of *dnn_tensor;
typedef struct dnn_filter_of *dnn_filter;
typedef struct dnn_conv_of *dnn_conv;
typedef struct dnn_activation_of *dnn_activation;
typedef struct dnn_choice { /* cudnnConvolutionFwdAlgoPerf_t */
  int algo, status;
  float time;
  size_t workspace;
  int determinism, math;
  int reserved[3];
} dnn_choice;

/* clang-format off */
#define DNN_FUNCTIONS(X) \
  X(Create, cudnnCreate, (dnn_handle *handle)) \
  X(Destroy, cudnnDestroy, (dnn_handle handle)) \
  X(SetStream, cudnnSetStream, (dnn_handle handle, cu_stream stream)) \
  X(CreateTensorDescriptor, cudnnCreateTensorDescriptor, (dnn_tensor *tensor)) \
  X(SetTensorNdDescriptor, cudnnSetTensorNdDescriptor, \
    (dnn_tensor tensor, int type, int rank, const int *dims, \
     const int *strides)) \
  X(DestroyTensorDescriptor, cudnnDestroyTensorDescriptor, (dnn_tensor tensor)) \
  X(CreateFilterDescriptor, cudnnCreateFilterDescriptor, (dnn_filter *filter)) \
  X(SetFilterNdDescriptor, cudnnSetFilterNdDescriptor, \
    (dnn_filter filter, int type, int format, int rank, const int *dims)) \
  X(DestroyFilterDescriptor, cudnnDestroyFilterDescriptor, (dnn_filter filter)) \
  X(CreateConvolutionDescriptor, cudnnCreateConvolutionDescriptor, \
    (dnn_conv *conv)) \
  X(SetConvolutionNdDescriptor, cudnnSetConvolutionNdDescriptor, \
    (dnn_conv conv, int space, const int *pads, const int *strides, \
     const int *dilations, int mode, int compute)) \
  X(SetConvolutionGroupCount, cudnnSetConvolutionGroupCount, \
    (dnn_conv conv, int groups)) \
  X(SetConvolutionMathType, cudnnSetConvolutionMathType, \
    (dnn_conv conv, int math)) \
  X(DestroyConvolutionDescriptor, cudnnDestroyConvolutionDescriptor, \
    (dnn_conv conv)) \
  X(CreateActivationDescriptor, cudnnCreateActivationDescriptor, \
    (dnn_activation *activation)) \
  X(SetActivationDescriptor, cudnnSetActivationDescriptor, \
    (dnn_activation activation, int mode, int nan, double coefficient)) \
  X(DestroyActivationDescriptor, cudnnDestroyActivationDescriptor, \
    (dnn_activation activation)) \
  X(GetConvolutionForwardAlgorithm, cudnnGetConvolutionForwardAlgorithm_v7, \
    (dnn_handle handle, dnn_tensor x, dnn_filter w, dnn_conv conv, \
     dnn_tensor y, int wanted, int *count, dnn_choice *choices)) \
  X(GetConvolutionForwardWorkspaceSize, \
    cudnnGetConvolutionForwardWorkspaceSize, \
    (dnn_handle handle, dnn_tensor x, dnn_filter w, dnn_conv conv, \
     dnn_tensor y, int algo, size_t *size)) \
  X(ConvolutionForward, cudnnConvolutionForward, \
    (dnn_handle handle, const void *alpha, dnn_tensor x_tensor, const void *x, \
     dnn_filter w_filter, const void *w, dnn_conv conv, int algo, \
     void *workspace, size_t size, const void *beta, dnn_tensor y_tensor, \
     void *y)) \
  X(ConvolutionBiasActivationForward, cudnnConvolutionBiasActivationForward, \
    (dnn_handle handle, const void *alpha1, dnn_tensor x_tensor, \
     const void *x, dnn_filter w_filter, const void *w, dnn_conv conv, \
     int algo, void *workspace, size_t size, const void *alpha2, \
     dnn_tensor z_tensor, const void *z, dnn_tensor bias_tensor, \
     const void *bias, dnn_activation activation, dnn_tensor y_tensor, \
     void *y))
/* clang-format on */

typedef struct dnn_api {
#define DNN_FIELD(name, symbol, arguments) int(*name) arguments;
  DNN_FUNCTIONS(DNN_FIELD)
#undef DNN_FIELD
  size_t (*GetVersion)(void);
  const char *(*GetErrorString)(int status);
  int version; /* 10000 major + 100 minor + patch; 0: there is none */
} dnn_api;

extern dnn_api dnn;

/* ---- NCCL --------------------------------------------------------------------------- */

/* ncclResult_t, ncclRedOp_t, ncclDataType_t */
enum {
  NCCL_OK = 0,
  NCCL_IN_PROGRESS = 7, /* from 2.14 on */
  NCCL_SUM = 0,
  NCCL_PRODUCT = 1,
  NCCL_MAX = 2,
  NCCL_MIN = 3,
  NCCL_I8 = 0,
  NCCL_U8 = 1,
  NCCL_I32 = 2,
  NCCL_U32 = 3,
  NCCL_I64 = 4,
  NCCL_U64 = 5,
  NCCL_F16 = 6,
  NCCL_F32 = 7,
  NCCL_F64 = 8,
  NCCL_BF16 = 9
};

typedef struct nccl_comm_of *nccl_comm;

/* ncclUniqueId */
typedef struct nccl_id {
  char bytes[128];
} nccl_id;

/* ncclConfig_t as 2.14 had it: what lies behind is as NCCL has it. */
typedef struct nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking;
} nccl_config;
#define NCCL_CONFIG_MAGIC   0xcafebeefu
#define NCCL_CONFIG_VERSION 21400u

/* clang-format off */
#define NCCL_FUNCTIONS(X) \
  X(CommInitAll, ncclCommInitAll, \
    (nccl_comm *comms, int count, const int *devices)) \
  X(CommDestroy, ncclCommDestroy, (nccl_comm comm)) \
  X(CommAbort, ncclCommAbort, (nccl_comm comm)) \
  X(GroupStart, ncclGroupStart, (void)) \
  X(GroupEnd, ncclGroupEnd, (void)) \
  X(AllReduce, ncclAllReduce, \
    (const void *from, void *to, size_t count, int type, int reduction, \
     nccl_comm comm, cu_stream stream)) \
  X(ReduceScatter, ncclReduceScatter, \
    (const void *from, void *to, size_t count, int type, int reduction, \
     nccl_comm comm, cu_stream stream)) \
  X(AllGather, ncclAllGather, \
    (const void *from, void *to, size_t count, int type, nccl_comm comm, \
     cu_stream stream)) \
  X(Broadcast, ncclBroadcast, \
    (const void *from, void *to, size_t count, int type, int root, \
     nccl_comm comm, cu_stream stream)) \
  X(Send, ncclSend, \
    (const void *from, size_t count, int type, int peer, nccl_comm comm, \
     cu_stream stream)) \
  X(Recv, ncclRecv, \
    (void *to, size_t count, int type, int peer, nccl_comm comm, \
     cu_stream stream))
/* by which members join from several processes, without waiting */
#define NCCL_JOINING(X) \
  X(GetUniqueId, ncclGetUniqueId, (nccl_id *id)) \
  X(CommInitRankConfig, ncclCommInitRankConfig, \
    (nccl_comm *comm, int count, nccl_id id, int rank, nccl_config *config)) \
  X(CommGetAsyncError, ncclCommGetAsyncError, (nccl_comm comm, int *code))
/* clang-format on */

typedef struct nccl_api {
#define NCCL_FIELD(name, symbol, arguments) int(*name) arguments;
  NCCL_FUNCTIONS(NCCL_FIELD)
  NCCL_JOINING(NCCL_FIELD)
#undef NCCL_FIELD
  int (*GetVersion)(int *version);
  const char *(*GetErrorString)(int status);
  int version; /* 10000 major + 100 minor + patch; 0: there is none */
  int joins;   /* it has the functions of NCCL_JOINING, and is 2.14 */
} nccl_api;

extern nccl_api nccl;

/* Finds the library in `path`; NULL: where the system has it, of a version that the driver
 * knows. NULL, or why it can't be used. Once for a process. */
const char *lt_api_open(const char *path);
const char *dnn_api_open(const char *path);
const char *nccl_api_open(const char *path);

/* Returns a library's status where it is a failure. */
#define LIBRARY_TRY(call)                             \
  do {                                                \
    int library_status_ = (call);                     \
    if (library_status_ != 0) return library_status_; \
  } while (0)

#endif /* KEEL_CUDA_LIBRARY_H */
