"""Scripts: `x=func(a,'const',1);if(x>2){y='many'}else{y='few'}`."""
