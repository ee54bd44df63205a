/* static_tls.c - a variable of each thread that the linker has to find room for before. */
#include "toy.h"

static _Thread_local char room[1 << 20]
    __attribute__((tls_model("initial-exec")));

KD_EXPORT char *toy_room(void);

KD_EXPORT char *toy_room(void) {
  return room;
}
