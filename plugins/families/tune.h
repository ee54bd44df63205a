/* tune.h - plans that are cut as a search has found best on the device, which the host's store
 * keeps. A result belongs to one device, driver, kernel source and set of sizes; one that is
 * of another, or that no variant has the name of, is as good as none. */
#ifndef KEEL_FAMILIES_TUNE_H
#define KEEL_FAMILIES_TUNE_H

#include "common/tuning.h"
#include "families/family.h"
#include "families/store.h"

typedef struct fam_tuner fam_tuner;
struct fam_driver;

/* `device` names the device and its driver. NULL in *out_tuner where option "tuned" is off.
 * Returns KD_OK, KD_OUT_OF_MEMORY, KD_INVALID_ARGUMENT (the option is something else). */
kd_status fam_tuner_open(const kd_host *host, const fam_key *device,
                         fam_tuner **out_tuner);
void fam_tuner_close(fam_tuner *tuner);
#define FAM_TUNED_OPTION                                              \
  OPTION("tuned", "auto|off", "auto",                                 \
         "Kernels are cut as `keel tune` has found best; off: as the" \
         " cost model says, without a look at what was found.")
#define FAM_CUT_OPTION                                               \
  {                                                                  \
    .struct_size = sizeof(kd_option_def), .name = "cut",             \
    .type = KD_OPTION_INTEGER, .default_value = "-1",                \
    .doc =                                                           \
        "For tests: each kernel is cut in the way of this number of" \
        " those that `keel tune` would try; -1: as ever.",           \
  }

/* The option "f64". */
#define FAM_F64_OPTION                                                   \
  OPTION("f64", "auto|off", "auto",                                      \
         "For tests; off: the device is used as if it could not compute" \
         " in f64.")

/* How a plan is made, and what its pass is to be timed with. */
typedef struct fam_maker {
  kd_status (*make)(void *context, fam_plan *plan);
  void *context;
  const kd_node *node; /* the product or convolution; NULL: none */
  uint32_t behind;     /* how many ops its kernel goes on with */
  /* bytes of inputs and outputs, as the pass numbers them */
  uint64_t in[FAM_INPUTS], out[FAM_OUTPUTS];
} fam_maker;

/* Fills a zeroed plan by the maker: as was found best, or, in a search, as is found. Returns
 * what making it returns. */
kd_status fam_plan_tuned(const struct fam_driver *driver, kd_device *device,
                         const fam_maker *maker, fam_plan *plan);

/* For kd_plugin.extension. */
extern const tune_table fam_tune;

#endif /* KEEL_FAMILIES_TUNE_H */
