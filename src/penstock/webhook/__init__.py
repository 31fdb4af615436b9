"""The admission webhook for an existing cluster: the defaults and rules of the embedded API, over HTTPS."""
