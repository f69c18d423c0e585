/* The header, its types and functions from C++. */
#include "a1_layout.c"
