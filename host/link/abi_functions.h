/* abi_functions.h - the functions of MPI that mpi.c calls, by name and parameters: F(NAME,
 * PARAMETERS). All return int. */
#ifndef KEEL_ABI_FUNCTIONS_H
#define KEEL_ABI_FUNCTIONS_H

#define ABI_FUNCTIONS(F)                                                       \
  F(MPI_Initialized, (int *))                                                  \
  F(MPI_Finalized, (int *))                                                    \
  F(MPI_Init_thread, (int *, char ***, int, int *))                            \
  F(MPI_Query_thread, (int *))                                                 \
  F(MPI_Finalize, (void))                                                      \
  F(MPI_Abort, (MPI_Comm, int))                                                \
  F(MPI_Get_library_version, (char *, int *))                                  \
  F(MPI_Error_string, (int, char *, int *))                                    \
  F(MPI_Comm_rank, (MPI_Comm, int *))                                          \
  F(MPI_Comm_size, (MPI_Comm, int *))                                          \
  F(MPI_Comm_dup, (MPI_Comm, MPI_Comm *))                                      \
  F(MPI_Comm_split, (MPI_Comm, int, int, MPI_Comm *))                          \
  F(MPI_Comm_split_type, (MPI_Comm, int, int, MPI_Info, MPI_Comm *))           \
  F(MPI_Comm_set_errhandler, (MPI_Comm, MPI_Errhandler))                       \
  F(MPI_Comm_free, (MPI_Comm *))                                               \
  F(MPI_Op_create, (MPI_User_function *, int, MPI_Op *))                       \
  F(MPI_Op_free, (MPI_Op *))                                                   \
  F(MPI_Type_contiguous, (int, MPI_Datatype, MPI_Datatype *))                  \
  F(MPI_Type_create_struct, (int, const int *, const MPI_Aint *,               \
                             const MPI_Datatype *, MPI_Datatype *))            \
  F(MPI_Type_commit, (MPI_Datatype *))                                         \
  F(MPI_Type_free, (MPI_Datatype *))                                           \
  F(MPI_Iallreduce, (const void *, void *, int, MPI_Datatype, MPI_Op,          \
                     MPI_Comm, MPI_Request *))                                 \
  F(MPI_Ireduce_scatter_block, (const void *, void *, int, MPI_Datatype,       \
                                MPI_Op, MPI_Comm, MPI_Request *))              \
  F(MPI_Iallgather, (const void *, int, MPI_Datatype, void *, int,             \
                     MPI_Datatype, MPI_Comm, MPI_Request *))                   \
  F(MPI_Ialltoall, (const void *, int, MPI_Datatype, void *, int,              \
                    MPI_Datatype, MPI_Comm, MPI_Request *))                    \
  F(MPI_Ibcast, (void *, int, MPI_Datatype, int, MPI_Comm, MPI_Request *))     \
  F(MPI_Bcast, (void *, int, MPI_Datatype, int, MPI_Comm))                     \
  F(MPI_Ibarrier, (MPI_Comm, MPI_Request *))                                   \
  F(MPI_Isend,                                                                 \
    (const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))      \
  F(MPI_Irecv, (void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)) \
  F(MPI_Recv, (void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *))   \
  F(MPI_Iprobe, (int, int, MPI_Comm, int *, MPI_Status *))                     \
  F(MPI_Test, (MPI_Request *, int *, MPI_Status *))                            \
  F(MPI_Get_count, (const MPI_Status *, MPI_Datatype, int *))

#endif /* KEEL_ABI_FUNCTIONS_H */
