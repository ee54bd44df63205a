/* deque.h - a work-stealing deque of pointers, and a queue for outsiders.
 *
 * The deque is Chase and Lev's (SPAA 2005) with the memory orders of Lê, Pop, Cohen and Zappa
 * Nardelli (PPoPP 2013), of a fixed size: its owner pushes and pops at the bottom, any thread
 * steals at the top. The queue is Vyukov's bounded one for many producers and consumers: a cell's
 * sequence number says whose turn it is. */
#ifndef KEEL_DEQUE_H
#define KEEL_DEQUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef KEEL_DEQUE_ROOM
#define KEEL_DEQUE_ROOM 4096 /* a power of two */
#endif

_Static_assert((KEEL_DEQUE_ROOM & (KEEL_DEQUE_ROOM - 1)) == 0,
               "a power of two");

/* `top` changes only by seq_cst compare-exchange; `bottom` is written by the owner only.
 * The owner's stores that restore `bottom` may be relaxed: the cells below are published
 * already. */
typedef struct keel_deque {
  _Alignas(64) _Atomic int64_t top;
  _Alignas(64) _Atomic int64_t bottom;
  _Atomic(void *) items[KEEL_DEQUE_ROOM];
} keel_deque;

/* The cells are left uninitialised, so that unused memory is never touched: a cell is not
 * read before it is written. */
static inline void keel_deque_init(keel_deque *deque) {
  atomic_init(&deque->top, 0);
  atomic_init(&deque->bottom, 0);
}

/* Owner only; false if it is full. */
static inline bool keel_deque_push(keel_deque *deque, void *item) {
  int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
  /* acquire: pairs with a thief's compare-exchange on top, so its read of the cell precedes
   * our write */
  int64_t top = atomic_load_explicit(&deque->top, memory_order_acquire);
  if (bottom - top >= KEEL_DEQUE_ROOM) return false;
  atomic_store_explicit(&deque->items[bottom % KEEL_DEQUE_ROOM], item,
                        memory_order_relaxed);
  /* seq_cst: a thief that sees the new bottom sees the item and what it points to; and the
   * pusher then checks for sleepers, which check `bottom` before they sleep */
  atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_seq_cst);
  return true;
}

/* Owner only; NULL if it is empty. */
static inline void *keel_deque_pop(keel_deque *deque) {
  int64_t bottom =
      atomic_load_explicit(&deque->bottom, memory_order_relaxed) - 1;
  /* seq_cst, here and in `steal`: of two threads that take the last item, at least one sees
   * the other's store; the compare-exchange on top then decides */
  atomic_store_explicit(&deque->bottom, bottom, memory_order_seq_cst);
  int64_t top = atomic_load_explicit(&deque->top, memory_order_seq_cst);
  if (top > bottom) {
    atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_relaxed);
    return NULL;
  }
  void *item = atomic_load_explicit(&deque->items[bottom % KEEL_DEQUE_ROOM],
                                    memory_order_relaxed);
  if (top == bottom) {
    if (!atomic_compare_exchange_strong_explicit(&deque->top, &top, top + 1,
                                                 memory_order_seq_cst,
                                                 memory_order_relaxed))
      item = NULL;
    atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_relaxed);
  }
  return item;
}

/* Any thread; NULL if it is empty or another thread was faster. */
static inline void *keel_deque_steal(keel_deque *deque) {
  int64_t top = atomic_load_explicit(&deque->top, memory_order_seq_cst);
  int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_seq_cst);
  if (top >= bottom) return NULL;
  void *item = atomic_load_explicit(&deque->items[top % KEEL_DEQUE_ROOM],
                                    memory_order_relaxed);
  if (!atomic_compare_exchange_strong_explicit(&deque->top, &top, top + 1,
                                               memory_order_seq_cst,
                                               memory_order_relaxed))
    return NULL;
  return item;
}

#ifndef KEEL_QUEUE_ROOM
#define KEEL_QUEUE_ROOM 4096 /* a power of two */
#endif

/* `head` and `tail` hand out positions. The cell's `sequence`, loaded with acquire before an access
 * and stored with release after it, decides which thread may access the cell. `head` is relaxed.
 * `tail` is seq_cst: a producer then checks for sleepers, which check `tail` before they sleep. */
typedef struct keel_queue {
  _Alignas(64) _Atomic uint64_t head; /* next to take */
  _Alignas(64) _Atomic uint64_t tail; /* next to put */
  struct {
    _Atomic uint64_t sequence;
    void *item;
  } cells[KEEL_QUEUE_ROOM];
} keel_queue;

static inline void keel_queue_init(keel_queue *queue) {
  for (uint64_t i = 0; i < KEEL_QUEUE_ROOM; i++)
    atomic_init(&queue->cells[i].sequence, i);
}

/* Any thread; false if it is full. */
static inline bool keel_queue_put(keel_queue *queue, void *item) {
  uint64_t at = atomic_load_explicit(&queue->tail, memory_order_relaxed);
  for (;;) {
    /* acquire: pairs with the release in keel_queue_take: the cell has been read */
    uint64_t sequence = atomic_load_explicit(
        &queue->cells[at % KEEL_QUEUE_ROOM].sequence, memory_order_acquire);
    if (sequence == at) {
      if (atomic_compare_exchange_weak_explicit(&queue->tail, &at, at + 1,
                                                memory_order_seq_cst,
                                                memory_order_relaxed))
        break;
    } else if (sequence < at) {
      return false;
    } else {
      at = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    }
  }
  queue->cells[at % KEEL_QUEUE_ROOM].item = item;
  /* release: publishes the item and what it points to; pairs with the acquire in
   * keel_queue_take */
  atomic_store_explicit(&queue->cells[at % KEEL_QUEUE_ROOM].sequence, at + 1,
                        memory_order_release);
  return true;
}

/* Any thread; NULL if it is empty. */
static inline void *keel_queue_take(keel_queue *queue) {
  uint64_t at = atomic_load_explicit(&queue->head, memory_order_relaxed);
  for (;;) {
    /* acquire: pairs with the release in keel_queue_put */
    uint64_t sequence = atomic_load_explicit(
        &queue->cells[at % KEEL_QUEUE_ROOM].sequence, memory_order_acquire);
    if (sequence == at + 1) {
      if (atomic_compare_exchange_weak_explicit(&queue->head, &at, at + 1,
                                                memory_order_relaxed,
                                                memory_order_relaxed))
        break;
    } else if (sequence < at + 1) {
      return NULL;
    } else {
      at = atomic_load_explicit(&queue->head, memory_order_relaxed);
    }
  }
  void *item = queue->cells[at % KEEL_QUEUE_ROOM].item;
  /* release: pairs with the acquire in keel_queue_put, so the cell is read before it is
   * reused */
  atomic_store_explicit(&queue->cells[at % KEEL_QUEUE_ROOM].sequence,
                        at + KEEL_QUEUE_ROOM, memory_order_release);
  return item;
}

#endif /* KEEL_DEQUE_H */
