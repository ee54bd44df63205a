/* joined.c - simulated devices whose group each has joined by itself, from its own process or
 * thread. They meet in shared memory that the group's id names: each lays pieces of its input
 * there, and takes what the others have laid. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "mutants/group.h"

#define PIECE 65536u
#define MOST  1024u
#define MARK  "/keel-sim-"

/* Of one member, which alone writes it. */
typedef struct place {
  atomic_bool taken;
  atomic_ullong step; /* how often it has come so far */
  /* what it does, to be compared */
  uint32_t kind, reduction, root, dtype;
  uint64_t bytes;
  char piece[PIECE];
} place;

/* What all members map. */
typedef struct ground {
  atomic_uint size, come;
  atomic_bool failed;
  place places[];
} ground;

struct joined {
  atomic_int refs;
  atomic_bool aborted;
  kd_device *device;
  uint32_t rank, size;
  unsigned long long step;
  ground *all;
  size_t bytes;
  char name[64];
};

/* ---- ids -------------------------------------------------------------------------------- */

kd_status joined_make_id(kd_device *device, uint32_t flags,
                         kd_group_id *out_id) {
  static atomic_uint made;
  SIM_TRY(sim_check(device));
  if (flags & KD_GROUP_MACHINES)
    return FAIL(KD_UNIMPLEMENTED, "units of another machine are out of reach");
  if (flags) return FAIL(KD_UNIMPLEMENTED, "unknown flags 0x%x", flags);
  memset(out_id, 0, sizeof *out_id);
  snprintf((char *)out_id->bytes, sizeof out_id->bytes, MARK "%lx-%llx-%x",
           (unsigned long)getpid(),
           BUG(id_same) ? 0 : (unsigned long long)sim_now(),
           BUG(id_same) ? 0 : atomic_fetch_add(&made, 1));
  return KD_OK;
}

/* ---- joining ----------------------------------------------------------------------------- */

static kd_status map_ground(joined *g) {
  int file = shm_open(g->name, O_RDWR | O_CREAT, 0600);
  if (file < 0)
    return FAIL(KD_UNAVAILABLE, "no shared memory: %s", strerror(errno));
  g->bytes = sizeof(ground) + g->size * sizeof(place);
  void *at =
      ftruncate(file, (off_t)g->bytes) != 0
          ? MAP_FAILED
          : mmap(NULL, g->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED)
    return FAIL(KD_OUT_OF_MEMORY, "no %zu bytes of shared memory", g->bytes);
  g->all = at;
  return KD_OK;
}

/* The last that comes takes the name away: nobody else needs it. */
static kd_status take_place(joined *g) {
  unsigned none = 0;
  if (!atomic_compare_exchange_strong(&g->all->size, &none, g->size) &&
      none != g->size)
    return FAIL(KD_INVALID_ARGUMENT, "a group of %u members, and not of %u",
                none, g->size);
  if (atomic_exchange(&g->all->places[g->rank].taken, true))
    return FAIL(KD_INVALID_ARGUMENT, "member %u has joined already", g->rank);
  if (atomic_fetch_add(&g->all->come, 1) + 1 == g->size) shm_unlink(g->name);
  return KD_OK;
}

static kd_status joined_check(kd_device *device, const kd_join *what) {
  const char *name = (const char *)what->id->bytes;
  SIM_TRY(sim_check(device));
  if (what->flags)
    return FAIL(KD_UNIMPLEMENTED, "unknown flags 0x%x", what->flags);
  if (!what->size || what->size > MOST ||
      (what->rank >= what->size && !BUG(join_any)))
    return FAIL(KD_INVALID_ARGUMENT, "member %u of %u", what->rank, what->size);
  if (strncmp(name, MARK, sizeof MARK - 1) != 0 ||
      !memchr(name, 0, sizeof((joined *)0)->name))
    return FAIL(KD_INVALID_ARGUMENT, "it is no id of this plugin's");
  return KD_OK;
}

kd_status joined_join(kd_device *device, const kd_join *what,
                      kd_group **out_group) {
  kd_status status = KD_OK;
  SIM_TRY(joined_check(device, what));
  joined *g = calloc(1, sizeof *g);
  kd_group *group = calloc(1, sizeof *group + sizeof(kd_device *));
  if (g && group) {
    atomic_init(&g->refs, 1);
    g->device = device;
    g->rank = BUG(join_ranks) ? what->size - 1 - what->rank : what->rank;
    g->size = what->size;
    if (g->rank >= g->size) g->rank = 0;
    memcpy(g->name, what->id->bytes, sizeof g->name); /* with its zero */
    status = map_ground(g);
  } else {
    status = FAIL(KD_OUT_OF_MEMORY, "no host memory");
  }
  if (status == KD_OK) status = take_place(g);
  if (status != KD_OK) {
    if (g) joined_drop(g);
    free(group);
    return status;
  }
  group->joined = g;
  group->size = 1;
  group->devices[0] = device;
  *out_group = group;
  return KD_OK;
}

joined *joined_hold(joined *g) {
  atomic_fetch_add(&g->refs, 1);
  return g;
}

void joined_drop(joined *g) {
  if (!g || atomic_fetch_sub(&g->refs, 1) != 1) return;
  if (g->all) munmap(g->all, g->bytes);
  free(g);
}

/* ---- how it is -------------------------------------------------------------------------- */

void joined_fail(joined *g) {
  atomic_store(&g->all->failed, true);
}

bool joined_is_aborted(joined *g) {
  return atomic_load(&g->aborted);
}

kd_status joined_status(kd_group *group) {
  joined *g = group->joined;
  if (!g) return KD_OK;
  SIM_TRY(sim_check(g->device));
  if (BUG(status_forgets)) return KD_OK;
  if (joined_is_aborted(g))
    return FAIL(KD_ABORTED, "the group has been given up");
  if (atomic_load(&g->all->failed))
    return FAIL(KD_ABORTED, "another member has given the group up");
  bool whole = atomic_load(&g->all->come) == g->size || BUG(status_early);
  return whole ? KD_OK : KD_BUSY;
}

static void joined_give_up(joined *g) {
  atomic_store(&g->aborted, true);
  joined_fail(g);
  if (atomic_load(&g->all->come) < g->size) shm_unlink(g->name);
}

void joined_abort(kd_group *group) {
  if (group->joined && !BUG(abort_nothing)) joined_give_up(group->joined);
}

void joined_leave(joined *g) {
  if (BUG(abort_nothing) || atomic_load(&g->all->come) < g->size)
    joined_give_up(g);
  joined_drop(g);
}

/* ---- work ------------------------------------------------------------------------------- */

/* Waits until all have come as often as this one. */
static kd_status joined_meet(joined *g) {
  ground *all = g->all;
  atomic_store(&all->places[g->rank].step, ++g->step);
  for (uint32_t i = 0; i < g->size; i++)
    for (uint32_t asked = 0; atomic_load(&all->places[i].step) < g->step;
         asked++) {
      if (atomic_load(&all->failed)) return KD_ABORTED;
      if (sim_is_lost(g->device)) return KD_DEVICE_LOST;
      if (asked < 200)
        sched_yield();
      else
        sim_nap(50);
    }
  return KD_OK;
}

/* What all have laid there, piece by piece, reduced. */
static void reduce_pieces(const joined *g, const round *r, char *to,
                          uint64_t size) {
  float *out = (float *)(void *)to;
  for (uint64_t k = 0; k < size / sizeof *out; k++) {
    float x = 0;
    for (uint32_t i = 0; i < g->size; i++) {
      float next = ((const float *)(const void *)g->all->places[i].piece)[k];
      x = i ? sim_reduce(r->reduction, x, next) : next;
    }
    out[k] = x;
  }
}

/* Takes what belongs to this member of a piece, which begins `at` bytes into part `part`. */
static void joined_take(const joined *g, const round *r, char *out,
                        uint32_t part, uint64_t part_size, uint64_t at,
                        uint64_t size) {
  const place *places = g->all->places;
  bool parted = r->kind == KD_REDUCE_SCATTER || r->kind == KD_ALL_TO_ALL;
  if (parted && part != g->rank) return;
  if (r->kind == KD_ALL_REDUCE || r->kind == KD_REDUCE_SCATTER)
    reduce_pieces(g, r, out + at, size);
  else if (r->kind == KD_BROADCAST)
    memcpy(out + at, places[r->root].piece, size);
  else
    for (uint32_t i = 0; i < g->size; i++)
      memcpy(out + i * part_size + at, places[i].piece, size);
}

static kd_status joined_exchange(joined *g, const round *r, const char *in,
                                 uint64_t size, char *out) {
  bool parted = r->kind == KD_REDUCE_SCATTER || r->kind == KD_ALL_TO_ALL;
  bool gives = r->kind != KD_BROADCAST || r->root == g->rank;
  uint32_t parts = parted ? g->size : 1;
  uint64_t part_size = size / parts;
  for (uint32_t p = 0; p < parts; p++)
    for (uint64_t at = 0; at < part_size; at += PIECE) {
      uint64_t piece = part_size - at < PIECE ? part_size - at : PIECE;
      if (gives)
        memcpy(g->all->places[g->rank].piece, in + p * part_size + at, piece);
      SIM_TRY(joined_meet(g));
      joined_take(g, r, out, p, part_size, at, piece);
      SIM_TRY(joined_meet(g)); /* the pieces may be overwritten */
    }
  return KD_OK;
}

/* All do the same. */
static kd_status agree(joined *g, const round *r, uint64_t size) {
  place *own = &g->all->places[g->rank];
  own->kind = r->kind;
  own->reduction = r->reduction;
  own->root = r->root;
  own->dtype = r->members[0].out.dtype;
  own->bytes = size;
  SIM_TRY(joined_meet(g));
  bool same = true;
  for (uint32_t i = 0; i < g->size; i++) {
    const place *other = &g->all->places[i];
    same &= other->kind == own->kind && other->reduction == own->reduction &&
            other->root == own->root && other->dtype == own->dtype &&
            other->bytes == own->bytes;
  }
  kd_status status = joined_meet(g);
  return same ? status : KD_INVALID_ARGUMENT;
}

kd_status joined_run(job *j) {
  const round *r = j->context;
  const member *m = &r->members[0];
  joined *g = r->joined;
  uint64_t out_size = (uint64_t)sim_count_of(&m->out) * sizeof(float);
  uint64_t size = r->kind == KD_BROADCAST
                      ? out_size
                      : (uint64_t)sim_count_of(&m->in) * sizeof(float);
  char *made = malloc(out_size + 1); /* the input may be the output, too */
  const char *in = r->early        ? r->early
                   : m->in.present ? (char *)sim_floats(&m->in)
                                   : NULL;
  kd_status status = made ? agree(g, r, size) : KD_OUT_OF_MEMORY;
  if (status == KD_OK) status = joined_exchange(g, r, in, size, made);
  if (status == KD_OK) memcpy(sim_floats(&m->out), made, out_size);
  free(made);
  if (status != KD_OK) joined_fail(g);
  return BUG(abort_succeeds) && status == KD_ABORTED ? KD_OK : status;
}
