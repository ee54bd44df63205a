/* abi.h - what is used of PJRT's C ABI (openxla/xla, xla/pjrt/c/pjrt_c_api.h, version 0.81):
 * the layout of its structs, in Keel's words. check_abi.py compares it with a published
 * header.
 *
 * A function takes one struct, which begins with its size and a chain of extensions; what it
 * reads comes first and then what it writes. It returns NULL, or an error. */
#ifndef KEEL_PJRT_ABI_H
#define KEEL_PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PJRT_MAJOR 0
#define PJRT_MINOR 81

typedef struct pjrt_error pjrt_error;
typedef struct pjrt_event pjrt_event;
typedef struct pjrt_client pjrt_client;
typedef struct pjrt_description pjrt_description; /* of a device */
typedef struct pjrt_device pjrt_device;
typedef struct pjrt_memory pjrt_memory;
typedef struct pjrt_topology pjrt_topology;
typedef struct pjrt_buffer pjrt_buffer;
/* what a program was compiled to, and the same on its device: one object here */
typedef struct pjrt_executable pjrt_executable;

#define PJRT_HEAD     \
  size_t struct_size; \
  void *extension

/* ---- values ---- */

typedef struct pjrt_named_value {
  PJRT_HEAD;
  const char *name;
  size_t name_size;
  int kind; /* 0 text, 1 integer, 2 integers, 3 float, 4 bool */
  union {
    const char *text;
    int64_t integer;
    const int64_t *integers;
    float real;
    bool truth;
  } value;
  size_t value_size; /* of a text and of integers; else 1 */
} pjrt_named_value;

typedef struct pjrt_program {
  PJRT_HEAD;
  char *code;
  size_t code_size;
  const char *format;
  size_t format_size;
} pjrt_program;

typedef struct pjrt_tiled_layout {
  PJRT_HEAD;
  const int64_t *minor_to_major;
  size_t minor_to_major_size;
  const int64_t *tile_dims;
  const size_t *tile_dim_sizes;
  size_t tile_count;
} pjrt_tiled_layout;

typedef struct pjrt_strided_layout {
  PJRT_HEAD;
  const int64_t *byte_strides;
  size_t byte_stride_count;
} pjrt_strided_layout;

typedef struct pjrt_layout {
  PJRT_HEAD;
  union {
    pjrt_tiled_layout tiled;
    pjrt_strided_layout strided;
  } as;
  int kind; /* 0 tiled, 1 strided */
} pjrt_layout;

/* ---- arguments ---- */

/* NAME_args: of one function, behind the head. */
#define ARGS(name, ...)        \
  typedef struct name##_args { \
    PJRT_HEAD;                 \
    __VA_ARGS__;               \
  } name##_args;

#define ARGS_TEXT(name, type) \
  ARGS(name, type *object; const char *text; size_t text_size)
#define ARGS_LIST(name, type, item) \
  ARGS(name, type *object; item *const *list; size_t count)
#define ARGS_OUT(name, type, out) ARGS(name, type *object; out result)
#define ARGS_ONE(name, type)      ARGS(name, type *object)

ARGS_ONE(Error_Destroy, pjrt_error)
ARGS_TEXT(Error_Message, const pjrt_error)
ARGS_OUT(Error_GetCode, const pjrt_error, int)
ARGS(Plugin_Initialize, char none[1])
ARGS(Plugin_Attributes, const pjrt_named_value *list; size_t count)

ARGS_ONE(Event_Destroy, pjrt_event)
ARGS_OUT(Event_IsReady, pjrt_event, bool)
ARGS_ONE(Event_Error, pjrt_event)
ARGS_ONE(Event_Await, pjrt_event)
typedef void (*pjrt_callback)(pjrt_error *error, void *context);
ARGS(Event_OnReady, pjrt_event *object; pjrt_callback callback; void *context)

ARGS(Client_Create, const pjrt_named_value *options; size_t option_count;
     void *key_value[4]; pjrt_client * client)
ARGS_ONE(Client_Destroy, pjrt_client)
ARGS_TEXT(Client_PlatformName, pjrt_client)
ARGS_OUT(Client_ProcessIndex, pjrt_client, int)
ARGS_TEXT(Client_PlatformVersion, pjrt_client)
ARGS_OUT(Client_TopologyDescription, pjrt_client, pjrt_topology *)
ARGS_LIST(Client_Devices, pjrt_client, pjrt_device)
ARGS_LIST(Client_AddressableDevices, pjrt_client, pjrt_device)
ARGS(Client_LookupDevice, pjrt_client *object; int id; pjrt_device * result)
ARGS(Client_LookupAddressableDevice, pjrt_client *object; int id;
     pjrt_device * result)
ARGS_LIST(Client_AddressableMemories, pjrt_client, pjrt_memory)
ARGS(Client_Compile, pjrt_client *object; const pjrt_program *program;
     const char *options; size_t option_size; pjrt_executable * result)
ARGS(Client_DefaultDeviceAssignment, pjrt_client *object; int replicas;
     int partitions; size_t count; int *assignment)
ARGS(Client_BufferFromHostBuffer, pjrt_client *object; const void *data;
     int type; const int64_t *dims; size_t rank; const int64_t *byte_strides;
     size_t byte_stride_count; int semantics; pjrt_device * device;
     pjrt_memory * memory; pjrt_layout * layout; pjrt_event * done;
     pjrt_buffer * result)

ARGS_OUT(DeviceDescription_Id, pjrt_description, int)
ARGS_OUT(DeviceDescription_ProcessIndex, pjrt_description, int)
ARGS(DeviceDescription_Attributes, pjrt_description *object; size_t count;
     const pjrt_named_value *list)
ARGS_TEXT(DeviceDescription_Kind, pjrt_description)
ARGS_TEXT(DeviceDescription_DebugString, pjrt_description)
ARGS_TEXT(DeviceDescription_ToString, pjrt_description)
ARGS_OUT(Device_GetDescription, pjrt_device, pjrt_description *)
ARGS_OUT(Device_IsAddressable, pjrt_device, bool)
ARGS_OUT(Device_LocalHardwareId, pjrt_device, int)
ARGS_LIST(Device_AddressableMemories, pjrt_device, pjrt_memory)
ARGS_OUT(Device_DefaultMemory, pjrt_device, pjrt_memory *)
typedef struct pjrt_figure {
  int64_t value;
  bool known;
} pjrt_figure;
ARGS(Device_MemoryStats, pjrt_device *object; int64_t in_use; pjrt_figure peak;
     pjrt_figure allocations; pjrt_figure largest; pjrt_figure limit;
     pjrt_figure others[6])

ARGS_OUT(Memory_Id, pjrt_memory, int)
ARGS_TEXT(Memory_Kind, pjrt_memory)
ARGS_OUT(Memory_Kind_Id, pjrt_memory, int)
ARGS_TEXT(Memory_DebugString, pjrt_memory)
ARGS_TEXT(Memory_ToString, pjrt_memory)
ARGS_LIST(Memory_AddressableByDevices, pjrt_memory, pjrt_device)

ARGS_ONE(Executable_Destroy, pjrt_executable)
ARGS_TEXT(Executable_Name, pjrt_executable)
ARGS_OUT(Executable_NumReplicas, pjrt_executable, size_t)
ARGS_OUT(Executable_NumPartitions, pjrt_executable, size_t)
ARGS_OUT(Executable_NumOutputs, pjrt_executable, size_t)
ARGS_OUT(Executable_SizeOfGeneratedCodeInBytes, pjrt_executable, int64_t)
ARGS(Executable_OutputMemoryKinds, pjrt_executable *object; size_t count;
     const char *const *kinds; const size_t *kind_sizes)
ARGS(Executable_OutputElementTypes, pjrt_executable *object; int *types;
     size_t count)
ARGS(Executable_OutputDimensions, pjrt_executable *object; size_t count;
     const int64_t *dims; const size_t *ranks)
ARGS(Executable_OptimizedProgram, pjrt_executable *object;
     pjrt_program * program)
ARGS_TEXT(Executable_Fingerprint, pjrt_executable)
typedef struct pjrt_bytes pjrt_bytes; /* keeps what is lent as bytes */
ARGS(Executable_Serialize, const pjrt_executable *object; const char *bytes;
     size_t size; pjrt_bytes * keeper; void (*drop)(pjrt_bytes *keeper))
ARGS(Executable_DeserializeAndLoad, pjrt_client *object; const char *bytes;
     size_t size; pjrt_executable * result; const char *options;
     size_t option_size)
ARGS_ONE(LoadedExecutable_Destroy, pjrt_executable)
ARGS_OUT(LoadedExecutable_GetExecutable, pjrt_executable, pjrt_executable *)
ARGS_LIST(LoadedExecutable_AddressableDevices, pjrt_executable, pjrt_device)
ARGS_ONE(LoadedExecutable_Delete, pjrt_executable)
ARGS_OUT(LoadedExecutable_IsDeleted, pjrt_executable, bool)
ARGS_TEXT(LoadedExecutable_Fingerprint, pjrt_executable)
ARGS(LoadedExecutable_GetDeviceAssignment, pjrt_executable *object;
     const char *bytes; size_t size; pjrt_bytes * keeper;
     void (*drop)(pjrt_bytes *keeper))
typedef struct pjrt_execute_options {
  PJRT_HEAD;
  void *send, *receive;
  size_t send_count, receive_count;
  int launch_id;
  const int64_t *kept; /* inputs that are not donated */
  size_t kept_count;
} pjrt_execute_options;
ARGS(LoadedExecutable_Execute, pjrt_executable *object;
     pjrt_execute_options * options; pjrt_buffer *const *const *inputs;
     size_t device_count; size_t input_count; pjrt_buffer * *const *outputs;
     pjrt_event * *done; pjrt_device * device)

ARGS_ONE(Buffer_Destroy, pjrt_buffer)
ARGS_OUT(Buffer_ElementType, pjrt_buffer, int)
ARGS(Buffer_Dimensions, pjrt_buffer *object; const int64_t *dims; size_t rank)
ARGS(Buffer_UnpaddedDimensions, pjrt_buffer *object; const int64_t *dims;
     size_t rank)
ARGS(Buffer_DynamicDimensionIndices, pjrt_buffer *object; const size_t *list;
     size_t count)
ARGS_OUT(Buffer_GetMemoryLayout, pjrt_buffer, pjrt_layout)
ARGS_OUT(Buffer_OnDeviceSizeInBytes, pjrt_buffer, size_t)
ARGS_OUT(Buffer_Device, pjrt_buffer, pjrt_device *)
ARGS_OUT(Buffer_Memory, pjrt_buffer, pjrt_memory *)
ARGS_ONE(Buffer_Delete, pjrt_buffer)
ARGS_OUT(Buffer_IsDeleted, pjrt_buffer, bool)
ARGS(Buffer_CopyToDevice, pjrt_buffer *object; pjrt_device * device;
     pjrt_buffer * result)
ARGS(Buffer_CopyToMemory, pjrt_buffer *object; pjrt_memory * memory;
     pjrt_buffer * result)
ARGS(Buffer_ToHostBuffer, pjrt_buffer *object; pjrt_layout * layout; void *data;
     size_t size; pjrt_event * done)
ARGS_OUT(Buffer_IsOnCpu, pjrt_buffer, bool)
ARGS_OUT(Buffer_ReadyEvent, pjrt_buffer, pjrt_event *)
ARGS_OUT(Buffer_UnsafePointer, pjrt_buffer, uintptr_t)
ARGS_ONE(Buffer_IncreaseExternalReferenceCount, pjrt_buffer)
ARGS_ONE(Buffer_DecreaseExternalReferenceCount, pjrt_buffer)

ARGS_ONE(TopologyDescription_Destroy, pjrt_topology)
ARGS_TEXT(TopologyDescription_PlatformName, const pjrt_topology)
ARGS_TEXT(TopologyDescription_PlatformVersion, const pjrt_topology)
ARGS_LIST(TopologyDescription_GetDeviceDescriptions, const pjrt_topology,
          pjrt_description)
ARGS(TopologyDescription_Attributes, pjrt_topology *object;
     const pjrt_named_value *list; size_t count)

/* ---- the table ---- */

enum {
#define SLOT(name) PJRT_SLOT_##name,
#define NONE(name) PJRT_SLOT_##name,
#include "slots.def"
  PJRT_SLOTS
};

typedef pjrt_error *(*pjrt_function)(void *args);

typedef struct pjrt_api {
  PJRT_HEAD;
  struct {
    PJRT_HEAD;
    int major, minor;
  } version;
  pjrt_function functions[PJRT_SLOTS];
} pjrt_api;

/* Element types by PJRT's number, from 1 on. */
#define PJRT_TYPES                                                          \
  {                                                                         \
    KD_NONE, KD_BOOL, KD_I8, KD_I16, KD_I32, KD_I64, KD_U8, KD_U16, KD_U32, \
        KD_U64, KD_F16, KD_F32, KD_F64, KD_BF16, KD_C64, KD_C128            \
  }

#endif /* KEEL_PJRT_ABI_H */
