/* ort_abi.h - what this bridge uses of ONNX Runtime's C ABI, by position.
 *
 * ONNX Runtime hands a provider tables of functions. A table only grows at its
 * end, so a slot's number is its name's meaning for ever. Each table below
 * declares the slots that the bridge calls or fills, under their published
 * names, and pads the rest; ORT_SLOT states the last one's number once more and
 * lets the compiler compare. check_abi.py compares the numbers of all paddings
 * with the slots before them, and all slots with the published headers, which
 * are not part of Keel.
 *
 * Everything here exists since version 24 of the ABI (ONNX Runtime 1.24), which
 * is the version that the bridge asks for. */
#ifndef KEEL_ORT_ABI_H
#define KEEL_ORT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORT_VERSION_USED 24u

/* Objects of ONNX Runtime. The bridge holds pointers to them and never looks
 * inside. A NULL ort_status is success. */
typedef struct ort_status ort_status;
typedef struct ort_logger ort_logger;
typedef struct ort_env ort_env;
typedef struct ort_session ort_session;
typedef struct ort_session_options ort_session_options;
typedef struct ort_run_options ort_run_options;
typedef struct ort_pairs ort_pairs; /* names with values */
typedef struct ort_hardware ort_hardware;
typedef struct ort_ep_device ort_ep_device;
typedef struct ort_graph ort_graph;
typedef struct ort_node ort_node;
typedef struct ort_value_info ort_value_info; /* a value of a graph */
typedef struct ort_type ort_type;
typedef struct ort_tensor_type ort_tensor_type;
typedef struct ort_value ort_value; /* a tensor with data */
typedef struct ort_attr ort_attr;
typedef struct ort_support ort_support; /* where claims are put */
typedef struct ort_compute_context ort_compute_context;
typedef struct ort_kernel_context ort_kernel_context;
typedef struct ort_memory_info ort_memory_info; /* what an allocator gives */
typedef struct ort_memory_device ort_memory_device; /* and where that is */
typedef struct ort_stream ort_stream;
typedef struct ort_data_type ort_data_type; /* a tensor with these elements */
typedef struct ort_kernel_registry ort_kernel_registry;
typedef struct ort_kernel_builder ort_kernel_builder;
typedef struct ort_kernel_def ort_kernel_def;
typedef struct ort_kernel_info ort_kernel_info;

/* Enumerations, as the numbers that are used of them. */
enum {
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_ENGINE_ERROR = 5,
  ORT_NOT_IMPLEMENTED = 9,
  ORT_EP_FAIL = 11,
  ORT_NOT_FOUND = 14,

  ORT_LOGGING_LEVEL_VERBOSE = 0,
  ORT_LOGGING_LEVEL_INFO = 1,
  ORT_LOGGING_LEVEL_WARNING = 2,
  ORT_LOGGING_LEVEL_ERROR = 3,

  OrtHardwareDeviceType_CPU = 0,
  OrtHardwareDeviceType_GPU = 1,
  OrtHardwareDeviceType_NPU = 2,

  ORT_OP_ATTR_INT = 1,
  ORT_OP_ATTR_INTS = 2,
  ORT_OP_ATTR_FLOAT = 3,
  ORT_OP_ATTR_FLOATS = 4,
  ORT_OP_ATTR_STRING = 5,
  ORT_OP_ATTR_STRINGS = 6,
  ORT_OP_ATTR_GRAPH = 7,
  ORT_OP_ATTR_TENSOR = 8,

  OrtMemoryInfoDeviceType_CPU = 0,
  OrtMemoryInfoDeviceType_GPU = 1,
  OrtMemoryInfoDeviceType_NPU = 3,
  OrtDeviceMemoryType_DEFAULT = 0,
  OrtDeviceAllocator = 0,
  OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL = 1,
  OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION = 2,
  OrtCompiledModelCompatibility_EP_UNSUPPORTED = 3,
  OrtMemTypeCPUInput = -2,
  OrtMemTypeCPUOutput = -1,

  /* Element types; up to FLOAT4E2M1 the numbers are ONNX's. */
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING = 8,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1 = 23,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2 = 24,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2 = 25,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 = 26,
};

/* The slots from FIRST to the one before NEXT, which the bridge leaves alone. */
#define ORT_UNUSED(FIRST, NEXT) void *unused_##FIRST[(NEXT) - (FIRST)]
/* The slot NAME of TABLE has this number. */
#define ORT_SLOT(TABLE, NAME, NUMBER)                                \
  _Static_assert(offsetof(TABLE, NAME) == (NUMBER) * sizeof(void *), \
                 #TABLE "." #NAME " is not slot " #NUMBER)

typedef struct ort_ep_api ort_ep_api;

/* OrtModelEditorApi: makes nodes of models that are written. */
typedef struct ort_editor_api {
  ORT_UNUSED(0, 6);
  /* copies names and attributes; ONNX Runtime owns a node that it was given */
  ort_status *(*CreateNode)(const char *op, const char *domain,
                            const char *name, const char *const *inputs,
                            size_t input_count, const char *const *outputs,
                            size_t output_count, ort_attr **attrs,
                            size_t attr_count, ort_node **out);
} ort_editor_api;

ORT_SLOT(ort_editor_api, CreateNode, 6);

/* OrtApi */
typedef struct ort_api {
  ort_status *(*CreateStatus)(int code, const char *message); /* copied */
  int (*GetErrorCode)(const ort_status *status);
  const char *(*GetErrorMessage)(const ort_status *status);
  /* the process's one, once more */
  ort_status *(*CreateEnv)(int level, const char *name, ort_env **out);
  ORT_UNUSED(4, 8);
  ort_status *(*CreateSessionFromArray)(const ort_env *env, const void *model,
                                        size_t size,
                                        const ort_session_options *options,
                                        ort_session **out);
  ort_status *(*Run)(ort_session *session, const ort_run_options *options,
                     const char *const *input_names,
                     const ort_value *const *inputs, size_t input_count,
                     const char *const *output_names, size_t output_count,
                     ort_value **out);
  ort_status *(*CreateSessionOptions)(ort_session_options **out);
  ORT_UNUSED(11, 24);
  ort_status *(*SetIntraOpNumThreads)(ort_session_options *options, int count);
  ort_status *(*SetInterOpNumThreads)(ort_session_options *options, int count);
  ORT_UNUSED(26, 51);
  ort_status *(*GetTensorMutableData)(ort_value *value, void **out);
  ORT_UNUSED(52, 55);
  /* NULL: not a tensor */
  ort_status *(*CastTypeInfoToTensorInfo)(const ort_type *type,
                                          const ort_tensor_type **out);
  ORT_UNUSED(56, 60);
  ort_status *(*GetTensorElementType)(const ort_tensor_type *type, int *out);
  ort_status *(*GetDimensionsCount)(const ort_tensor_type *type, size_t *out);
  ort_status *(*GetDimensions)(const ort_tensor_type *type, int64_t *out,
                               size_t count); /* -1: open */
  ORT_UNUSED(63, 88);
  ort_status *(*KernelContext_GetInputCount)(const ort_kernel_context *context,
                                             size_t *out);
  ort_status *(*KernelContext_GetOutputCount)(const ort_kernel_context *context,
                                              size_t *out);
  ort_status *(*KernelContext_GetInput)(const ort_kernel_context *context,
                                        size_t index, const ort_value **out);
  ort_status *(*KernelContext_GetOutput)(ort_kernel_context *context,
                                         size_t index, const int64_t *dims,
                                         size_t rank, ort_value **out);
  void (*ReleaseEnv)(ort_env *env);
  void (*ReleaseStatus)(ort_status *status);
  void (*ReleaseMemoryInfo)(ort_memory_info *info);
  void (*ReleaseSession)(ort_session *session);
  void (*ReleaseValue)(ort_value *value);
  ORT_UNUSED(97, 100);
  void (*ReleaseSessionOptions)(ort_session_options *options);
  ORT_UNUSED(101, 211);
  /* `size`: bytes of a string, without a 0, or numbers of a list; copied */
  ort_status *(*CreateOpAttr)(const char *name, const void *data, int size,
                              int type, ort_attr **out);
  void (*ReleaseOpAttr)(ort_attr *attr);
  ORT_UNUSED(213, 247);
  ort_status *(*Logger_LogMessage)(const ort_logger *logger, int level,
                                   const char *message, const char *file,
                                   int line, const char *function);
  ORT_UNUSED(248, 272);
  /* If `size` is too small, fails and writes the size that is needed. */
  ort_status *(*ReadOpAttr)(const ort_attr *attr, int type, void *data,
                            size_t size, size_t *out_size);
  ORT_UNUSED(273, 289);
  ort_status *(*GetValueInfoName)(const ort_value_info *value,
                                  const char **out);
  ort_status *(*GetValueInfoTypeInfo)(const ort_value_info *value,
                                      const ort_type **out);
  const ort_editor_api *(*GetModelEditorApi)(void); /* NULL: not built in */
  ORT_UNUSED(292, 295);
  void (*CreateKeyValuePairs)(ort_pairs **out);
  void (*AddKeyValuePair)(ort_pairs *pairs, const char *key,
                          const char *value); /* copied */
  const char *(*GetKeyValue)(const ort_pairs *pairs, const char *key);
  void (*GetKeyValuePairs)(const ort_pairs *pairs, const char *const **keys,
                           const char *const **values, size_t *count);
  ORT_UNUSED(299, 300);
  void (*ReleaseKeyValuePairs)(ort_pairs *pairs);
  ORT_UNUSED(301, 307);
  int (*HardwareDevice_Type)(const ort_hardware *device);
  ORT_UNUSED(308, 317);
  const ort_ep_api *(*GetEpApi)(void);
  ort_status *(*GetTensorSizeInBytes)(const ort_value *value, size_t *out);
  ORT_UNUSED(319, 320);
  ort_status *(*CreateMemoryInfo_V2)(const char *name, int device_type,
                                     uint32_t vendor_id, int32_t device_id,
                                     int memory_type, size_t alignment,
                                     int allocator_type, ort_memory_info **out);
  ORT_UNUSED(321, 326);
  /* NULL: not an initializer */
  ort_status *(*ValueInfo_GetInitializerValue)(const ort_value_info *value,
                                               const ort_value **out);
  ORT_UNUSED(327, 331);
  ort_status *(*ValueInfo_IsConstantInitializer)(const ort_value_info *value,
                                                 bool *out);
  ort_status *(*ValueInfo_IsFromOuterScope)(const ort_value_info *value,
                                            bool *out);
  ORT_UNUSED(333, 334);
  /* "": not from a file */
  ort_status *(*Graph_GetModelPath)(const ort_graph *graph, const char **out);
  ORT_UNUSED(335, 336);
  ort_status *(*Graph_GetNumOperatorSets)(const ort_graph *graph, size_t *out);
  ort_status *(*Graph_GetOperatorSets)(const ort_graph *graph,
                                       const char **domains, int64_t *versions,
                                       size_t count);
  ort_status *(*Graph_GetNumInputs)(const ort_graph *graph, size_t *out);
  ort_status *(*Graph_GetInputs)(const ort_graph *graph,
                                 const ort_value_info **out, size_t count);
  ort_status *(*Graph_GetNumOutputs)(const ort_graph *graph, size_t *out);
  ort_status *(*Graph_GetOutputs)(const ort_graph *graph,
                                  const ort_value_info **out, size_t count);
  ort_status *(*Graph_GetNumInitializers)(const ort_graph *graph, size_t *out);
  ort_status *(*Graph_GetInitializers)(const ort_graph *graph,
                                       const ort_value_info **out,
                                       size_t count);
  ort_status *(*Graph_GetNumNodes)(const ort_graph *graph, size_t *out);
  ort_status *(*Graph_GetNodes)(const ort_graph *graph, const ort_node **out,
                                size_t count); /* in a topological order */
  /* NULL: the outermost graph */
  ort_status *(*Graph_GetParentNode)(const ort_graph *graph,
                                     const ort_node **out);
  ORT_UNUSED(347, 349);
  ort_status *(*Node_GetName)(const ort_node *node, const char **out);
  ort_status *(*Node_GetOperatorType)(const ort_node *node, const char **out);
  ort_status *(*Node_GetDomain)(const ort_node *node, const char **out);
  ort_status *(*Node_GetSinceVersion)(const ort_node *node, int *out);
  ort_status *(*Node_GetNumInputs)(const ort_node *node, size_t *out);
  ort_status *(*Node_GetInputs)(const ort_node *node,
                                const ort_value_info **out, size_t count);
  ort_status *(*Node_GetNumOutputs)(const ort_node *node, size_t *out);
  ort_status *(*Node_GetOutputs)(const ort_node *node,
                                 const ort_value_info **out, size_t count);
  ort_status *(*Node_GetNumImplicitInputs)(const ort_node *node, size_t *out);
  ort_status *(*Node_GetImplicitInputs)(const ort_node *node,
                                        const ort_value_info **out,
                                        size_t count);
  ort_status *(*Node_GetNumAttributes)(const ort_node *node, size_t *out);
  ort_status *(*Node_GetAttributes)(const ort_node *node, const ort_attr **out,
                                    size_t count);
  /* NULL: it has none of that name, which may be a failure as well */
  ort_status *(*Node_GetAttributeByName)(const ort_node *node, const char *name,
                                         const ort_attr **out);
  /* the caller releases the value */
  ort_status *(*OpAttr_GetTensorAttributeAsOrtValue)(const ort_attr *attr,
                                                     ort_value **out);
  ort_status *(*OpAttr_GetType)(const ort_attr *attr, int *out);
  ort_status *(*OpAttr_GetName)(const ort_attr *attr, const char **out);
  ort_status *(*Node_GetNumSubgraphs)(const ort_node *node, size_t *out);
  ort_status *(*Node_GetSubgraphs)(const ort_node *node, const ort_graph **out,
                                   size_t count, const char **out_attr_names);
  ORT_UNUSED(367, 368);
  ort_status *(*Node_GetEpName)(const ort_node *node,
                                const char **out); /* NULL or "": nobody's */
  ORT_UNUSED(369, 378);
  ort_status *(*GetTensorData)(const ort_value *value, const void **out);
  /* the caller releases the pairs */
  ort_status *(*GetSessionOptionsConfigEntries)(
      const ort_session_options *options, ort_pairs **out);
  ORT_UNUSED(380, 390);
  bool (*TensorTypeAndShape_HasShape)(const ort_tensor_type *type);
  ORT_UNUSED(391, 414);
  /* dims live as long as the value */
  ort_status *(*GetTensorElementTypeAndShapeDataReference)(
      const ort_value *value, int *out_type, const int64_t **out_dims,
      size_t *out_rank);
} ort_api;

ORT_SLOT(ort_api, GetTensorElementTypeAndShapeDataReference, 414);

/* OrtApiBase: what a provider gets first. */
typedef struct ort_api_base {
  const ort_api *(*GetApi)(uint32_t version); /* NULL: not that version */
  const char *(*GetVersionString)(void);
} ort_api_base;

ORT_SLOT(ort_api_base, GetVersionString, 1);

/* OrtNodeFusionOptions: how claimed nodes become one. */
typedef struct ort_fusion_options {
  uint32_t ort_version_supported;
  bool drop_constant_initializers; /* constants are not inputs of the one */
} ort_fusion_options;

_Static_assert(offsetof(ort_fusion_options, drop_constant_initializers) == 4,
               "OrtNodeFusionOptions has no gap");

/* OrtAllocator: gives memory. The bridge fills it. */
typedef struct ort_allocator ort_allocator;
struct ort_allocator {
  uint32_t version;
  void *(*Alloc)(ort_allocator *self, size_t size); /* NULL: none is left */
  void (*Free)(ort_allocator *self, void *address);
  const ort_memory_info *(*Info)(const ort_allocator *self);
  void *(*Reserve)(ort_allocator *self, size_t size); /* for constants */
  ORT_UNUSED(5, 8);
};

ORT_SLOT(ort_allocator, Reserve, 4);

/* OrtDataTransferImpl: copies between memories. The bridge fills it. */
typedef struct ort_data_transfer ort_data_transfer;
struct ort_data_transfer {
  uint32_t ort_version_supported;
  void (*Release)(ort_data_transfer *self);
  bool (*CanCopy)(const ort_data_transfer *self, const ort_memory_device *from,
                  const ort_memory_device *to);
  /* streams may be NULL */
  ort_status *(*CopyTensors)(ort_data_transfer *self, const ort_value **from,
                             ort_value **to, ort_stream **streams,
                             size_t count);
};

ORT_SLOT(ort_data_transfer, CopyTensors, 3);

/* OrtKernelImpl: what runs a node that is not compiled. The bridge fills it. */
typedef struct ort_kernel ort_kernel;
struct ort_kernel {
  uint32_t ort_version_supported;
  uint32_t flags; /* 0 */
  ort_status *(*Compute)(ort_kernel *self, ort_kernel_context *context);
  void (*Release)(ort_kernel *self);
  ORT_UNUSED(3, 5);
};

ORT_SLOT(ort_kernel, Release, 2);

/* Makes a kernel, which is ONNX Runtime's then. */
typedef ort_status *(*ort_kernel_create)(void *state,
                                         const ort_kernel_info *info,
                                         ort_kernel **out);

typedef struct ort_ep_factory ort_ep_factory;
typedef struct ort_ep ort_ep;
typedef struct ort_compute_info ort_compute_info;

/* OrtEpApi */
struct ort_ep_api {
  /* copies the pairs; ONNX Runtime owns the device when it was handed out */
  ort_status *(*CreateEpDevice)(ort_ep_factory *factory,
                                const ort_hardware *hardware,
                                const ort_pairs *metadata,
                                const ort_pairs *options, ort_ep_device **out);
  ORT_UNUSED(1, 2);
  ort_status *(*EpGraphSupportInfo_AddNodesToFuse)(
      ort_support *support, const ort_node *const *nodes, size_t count,
      const ort_fusion_options *options);
  ORT_UNUSED(3, 5);
  /* the device points to the info */
  ort_status *(*EpDevice_AddAllocatorInfo)(ort_ep_device *device,
                                           const ort_memory_info *info);
  ORT_UNUSED(6, 9);
  int (*MemoryDevice_GetDeviceType)(const ort_memory_device *device);
  ORT_UNUSED(10, 11);
  uint32_t (*MemoryDevice_GetVendorId)(const ort_memory_device *device);
  ORT_UNUSED(12, 16);
  ort_status *(*CreateHardwareDevice)(int type, uint32_t vendor_id,
                                      uint32_t device_id, const char *vendor,
                                      const ort_pairs *metadata,
                                      ort_hardware **out);
  void (*ReleaseHardwareDevice)(ort_hardware *device);
  ort_status *(*CreateKernelRegistry)(ort_kernel_registry **out);
  void (*ReleaseKernelRegistry)(ort_kernel_registry *registry);
  /* copies the definition */
  ort_status *(*KernelRegistry_AddKernel)(ort_kernel_registry *registry,
                                          const ort_kernel_def *definition,
                                          ort_kernel_create create,
                                          void *state);
  ort_status *(*CreateKernelDefBuilder)(ort_kernel_builder **out);
  void (*ReleaseKernelDefBuilder)(ort_kernel_builder *builder);
  ort_status *(*KernelDefBuilder_SetOperatorType)(ort_kernel_builder *builder,
                                                  const char *op);
  ort_status *(*KernelDefBuilder_SetDomain)(ort_kernel_builder *builder,
                                            const char *domain);
  ort_status *(*KernelDefBuilder_SetSinceVersion)(ort_kernel_builder *builder,
                                                  int first, int last);
  ort_status *(*KernelDefBuilder_SetExecutionProvider)(
      ort_kernel_builder *builder, const char *provider);
  ort_status *(*KernelDefBuilder_SetInputMemType)(ort_kernel_builder *builder,
                                                  size_t input, int type);
  ort_status *(*KernelDefBuilder_SetOutputMemType)(ort_kernel_builder *builder,
                                                   size_t output, int type);
  ort_status *(*KernelDefBuilder_AddTypeConstraint)(
      ort_kernel_builder *builder, const char *name,
      const ort_data_type *const *types, size_t count);
  ORT_UNUSED(30, 32);
  ort_status *(*KernelDefBuilder_Build)(ort_kernel_builder *builder,
                                        ort_kernel_def **out);
  void (*ReleaseKernelDef)(ort_kernel_def *definition);
  ORT_UNUSED(34, 40);
  /* fails for a type that this ONNX Runtime has not */
  ort_status *(*GetTensorDataType)(int element, const ort_data_type **out);
};

ORT_SLOT(ort_ep_api, GetTensorDataType, 40);

/* OrtEpFactory: makes providers. The bridge fills it. Slot 0 is the version
 * that it was built for; ONNX Runtime reads no slot that is younger. */
struct ort_ep_factory {
  uint32_t ort_version_supported;
  const char *(*GetName)(const ort_ep_factory *self);
  const char *(*GetVendor)(const ort_ep_factory *self);
  ort_status *(*GetSupportedDevices)(ort_ep_factory *self,
                                     const ort_hardware *const *found,
                                     size_t found_count, ort_ep_device **out,
                                     size_t capacity, size_t *out_count);
  ort_status *(*CreateEp)(ort_ep_factory *self,
                          const ort_hardware *const *devices,
                          const ort_pairs *const *metadata, size_t count,
                          const ort_session_options *options,
                          const ort_logger *logger, ort_ep **out);
  void (*ReleaseEp)(ort_ep_factory *self, ort_ep *ep);
  uint32_t (*GetVendorId)(const ort_ep_factory *self);
  const char *(*GetVersion)(const ort_ep_factory *self);
  /* what a text of a provider's GetCompiledModelCompatibilityInfo means here */
  ort_status *(*ValidateCompiledModelCompatibilityInfo)(
      ort_ep_factory *self, const ort_hardware *const *devices, size_t count,
      const char *info, int *out);
  ort_status *(*CreateAllocator)(ort_ep_factory *self,
                                 const ort_memory_info *memory,
                                 const ort_pairs *options, ort_allocator **out);
  void (*ReleaseAllocator)(ort_ep_factory *self, ort_allocator *allocator);
  ort_status *(*CreateDataTransfer)(ort_ep_factory *self,
                                    ort_data_transfer **out);
  bool (*IsStreamAware)(const ort_ep_factory *self);
  ORT_UNUSED(13, 21);
};

ORT_SLOT(ort_ep_factory, IsStreamAware, 12);

/* OrtEp: one provider, of one session. The bridge fills it. */
struct ort_ep {
  uint32_t ort_version_supported;
  const char *(*GetName)(const ort_ep *self);
  ort_status *(*GetCapability)(ort_ep *self, const ort_graph *graph,
                               ort_support *support);
  /* graphs and nodes live for the call only; out_contexts is for models that
   * are to be saved compiled */
  ort_status *(*Compile)(ort_ep *self, const ort_graph **graphs,
                         const ort_node **fused, size_t count,
                         ort_compute_info **out, ort_node **out_contexts);
  void (*ReleaseNodeComputeInfos)(ort_ep *self, ort_compute_info **infos,
                                  size_t count);
  ORT_UNUSED(5, 8);
  /* around a session's run, on its thread; the options are the run's */
  ort_status *(*OnRunStart)(ort_ep *self, const ort_run_options *options);
  ort_status *(*OnRunEnd)(ort_ep *self, const ort_run_options *options,
                          bool sync_stream);
  /* instead of the factory's; the factory releases the allocator */
  ort_status *(*CreateAllocator)(ort_ep *self, const ort_memory_info *memory,
                                 ort_allocator **out);
  ORT_UNUSED(11, 12);
  /* what the compiled model depends on; copied */
  const char *(*GetCompiledModelCompatibilityInfo)(ort_ep *self,
                                                   const ort_graph *graph);
  /* copied; NULL: no kernels */
  ort_status *(*GetKernelRegistry)(ort_ep *self,
                                   const ort_kernel_registry **out);
  ORT_UNUSED(14, 26);
};

ORT_SLOT(ort_ep, GetKernelRegistry, 13);

/* OrtNodeComputeInfo: how a compiled partition runs. The bridge fills it. */
struct ort_compute_info {
  uint32_t ort_version_supported;
  ort_status *(*CreateState)(ort_compute_info *self,
                             ort_compute_context *context, void **out);
  ort_status *(*Compute)(ort_compute_info *self, void *state,
                         ort_kernel_context *context);
  void (*ReleaseState)(ort_compute_info *self, void *state);
};

ORT_SLOT(ort_compute_info, ReleaseState, 3);

#endif /* KEEL_ORT_ABI_H */
