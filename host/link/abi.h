/* abi.h - what mpi.c needs of MPI's standard ABI, version 1 (MPI 5.0, chapter 20 and appendix A):
 * types, constants, and functions that are found when the module opens. In place of a <mpi.h>, so
 * that the module is built where no MPI is, and runs on each that has the ABI. */
#ifndef KEEL_ABI_H
#define KEEL_ABI_H

#include <stdint.h>

#include "abi_functions.h"

#define ABI_MAJOR 1

/* ---- types ------------------------------------------------------------------------------- */

/* Handles are pointers; those of MPI's own objects have small fixed values. */
typedef struct abi_comm *MPI_Comm;
typedef struct abi_datatype *MPI_Datatype;
typedef struct abi_errhandler *MPI_Errhandler;
typedef struct abi_info *MPI_Info;
typedef struct abi_op *MPI_Op;
typedef struct abi_request *MPI_Request;

typedef intptr_t MPI_Aint;
typedef void(MPI_User_function)(void *in, void *in_out, int *count,
                                MPI_Datatype *type);

typedef struct MPI_Status {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
  int own[5]; /* the library's */
} MPI_Status;

_Static_assert(sizeof(MPI_Status) == 32, "the ABI's status has eight ints");

/* ---- constants ---------------------------------------------------------------------------- */

#define ABI_HANDLE(type, value) ((type)(uintptr_t)(value))

#define MPI_COMM_WORLD    ABI_HANDLE(MPI_Comm, 0x101)
#define MPI_INFO_NULL     ABI_HANDLE(MPI_Info, 0x130)
#define MPI_ERRORS_RETURN ABI_HANDLE(MPI_Errhandler, 0x143)
#define MPI_REQUEST_NULL  ABI_HANDLE(MPI_Request, 0x180)
#define MPI_STATUS_IGNORE ABI_HANDLE(MPI_Status *, 0)

#define MPI_SUM  ABI_HANDLE(MPI_Op, 0x21)
#define MPI_MIN  ABI_HANDLE(MPI_Op, 0x22)
#define MPI_MAX  ABI_HANDLE(MPI_Op, 0x23)
#define MPI_PROD ABI_HANDLE(MPI_Op, 0x24)

#define MPI_DATATYPE_NULL    ABI_HANDLE(MPI_Datatype, 0x200)
#define MPI_FLOAT            ABI_HANDLE(MPI_Datatype, 0x210)
#define MPI_C_FLOAT_COMPLEX  ABI_HANDLE(MPI_Datatype, 0x212)
#define MPI_DOUBLE           ABI_HANDLE(MPI_Datatype, 0x214)
#define MPI_C_DOUBLE_COMPLEX ABI_HANDLE(MPI_Datatype, 0x216)
#define MPI_INT8_T           ABI_HANDLE(MPI_Datatype, 0x240)
#define MPI_UINT8_T          ABI_HANDLE(MPI_Datatype, 0x241)
#define MPI_BYTE             ABI_HANDLE(MPI_Datatype, 0x247)
#define MPI_INT16_T          ABI_HANDLE(MPI_Datatype, 0x248)
#define MPI_UINT16_T         ABI_HANDLE(MPI_Datatype, 0x249)
#define MPI_INT32_T          ABI_HANDLE(MPI_Datatype, 0x250)
#define MPI_UINT32_T         ABI_HANDLE(MPI_Datatype, 0x251)
#define MPI_INT64_T          ABI_HANDLE(MPI_Datatype, 0x258)
#define MPI_UINT64_T         ABI_HANDLE(MPI_Datatype, 0x259)

enum {
  MPI_SUCCESS = 0,
  MPI_ANY_SOURCE = -1,
  MPI_COMM_TYPE_SHARED = 221,
  MPI_THREAD_SINGLE = 0,
  MPI_THREAD_FUNNELED = 1024,
  MPI_THREAD_SERIALIZED = 2048,
  MPI_MAX_ERROR_STRING = 512,
  MPI_MAX_LIBRARY_VERSION_STRING = 8192
};

/* ---- functions ----------------------------------------------------------------------------- */

/* Pointers to the library's, by its names. */
#define ABI_DECLARE(name, parameters) extern int(*name) parameters;
ABI_FUNCTIONS(ABI_DECLARE)
#undef ABI_DECLARE

/* Finds the library, that of KEEL_MPI_LIBRARY or else libmpi_abi.so.1, and its functions. Returns
 * NULL, or why that can't be, in words that live until the next call. */
const char *abi_open(void);

#endif /* KEEL_ABI_H */
