/* What the programs about remote service requests share. */
#ifndef RSR_COMMON_H
#define RSR_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "rsr.h"

#define WORDS rsr_error()
#include "checks.h"

#include <signal.h>

#endif
