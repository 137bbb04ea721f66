import numpy as np
from scipy.special import log_ndtr
from scipy.optimize import brentq
def gaussian_epsilon(mu,*,delta):
    def f(e):
        a=log_ndtr(-e/mu+mu/2); b=e+log_ndtr(-e/mu-mu/2)
        return a+np.log1p(-np.exp(b-a))-np.log(delta)
    if np.exp(log_ndtr(mu/2))-np.exp(log_ndtr(-mu/2))<=delta: return 0.
    return brentq(f,0,mu*mu/2+mu*40,xtol=1e-14)
