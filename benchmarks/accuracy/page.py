def text(*a):
    return ""
