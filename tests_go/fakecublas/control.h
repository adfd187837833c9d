/* What the fake cuBLAS offers to tests, through pointers that attach_cublas fills. */
#ifndef FAKECUBLAS_CONTROL_H
#define FAKECUBLAS_CONTROL_H

/* attach_cublas finds the library that the process has loaded. It gives the loader's complaint, or NULL. */
const char *attach_cublas(const char *soname);

const char *cublas_complaint(void);
int cublas_live(void);

#endif
